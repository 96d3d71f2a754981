"""Make jobs that write a row when a condition of a key begins, and one when it ends."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl
import pyarrow as pa

from keyfold.columns import column, plain_columns, required
from keyfold.errors import Misconfigured
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import Source, as_input
from keyfold.keyed.job.state import State
from keyfold.keyed.job.step import DEADLINE, Clock, Step
from keyfold.keyed.job.tables import Append
from keyfold.keyed.rows.codec import empty
from keyfold.operators.aggregation.inference import OutputColumns
from keyfold.operators.conditions import (
    BEGAN,
    BEGAN_AT,
    CHANGE,
    ENDED,
    KEY,
    NAME,
    ROLE,
    ROW,
    SUBJECT,
    Held,
    Listed,
    after_times,
    held,
    listed,
)
from keyfold.operators.ordering import Ordered, in_order
from keyfold.operators.signatures import operator
from keyfold.operators.stepping import on_time, optional, step_job, tie_columns, waiting
from keyfold.schemas import Columns, check_condition, names_of
from keyfold.stream import TIMESTAMP
from keyfold.times import micros, to_micros

N_POINTS = "n_points"


@operator()
def alert(
    name: str,
    source: Source,
    conditions: Mapping[str, Held | Listed],
    *,
    key: str | Sequence[str],
    output: Columns | None = None,
    named: str = "alert",
    subject: str = "subject",
    **settings: Any,
) -> KeyedJob:
    """Make a job that writes a row when a condition begins for a key, and one when it ends, none in between.

    - **Order**: an event waits until the watermark has passed it, and is evaluated in order of event time, ties by all other
      columns. So neither arrival within the delay nor batch boundaries change a row.
    - **Late events**: those at or behind the watermark.
    - **Silent keys**: a condition stays open for ever; only an event ends it. `held_for` and `cool_down` pass with the watermark.
    - **State**: per key one row with the number of evaluated events, one row per open condition, and the waiting events. `role`
      tells them apart: `judged`, `holds`, `waiting`; with `held_for` and `cool_down` also `pending` (it has not held for long
      enough), `silent` (in the cool-down) and `rests` (the end before).

    NaN in a column that may be NULL counts as NULL.

    Args:
        name: the job's name.
        source: the stream, or its `Input`.
        conditions: the conditions by name.
        key: the key columns.
        output: columns of the table: columns of the events, `named`, `subject`, `change` (`BEGAN` or `ENDED`) and `began_at`; by
            default all, and `subject` only with a `Listed`.
        named: the column with the name of the condition.
        subject: the column with the subject of a `Listed` condition; NULL of others.
        settings: other arguments of `KeyedJob`.

    Raises:
        Misconfigured: there is no condition, or one is no condition on an event.

    Example:
        >>> from datetime import UTC, datetime, timedelta
        >>> from keyfold import Input, Stream, TestHarness
        >>> room = pa.field("room", pa.string(), nullable=False)
        >>> read = pa.schema([room, pa.field("at", TIMESTAMP, nullable=False), ("celsius", pa.float64())])
        >>> job = alert(
        ...     "warm_rooms", Input(Stream("readings", read, event_time="at"), columns=read),
        ...     {"WARM": Held(pl.col("celsius") > 30, pl.col("celsius") < 25)}, key="room",
        ... )
        >>> harness, noon = TestHarness(job), datetime(2026, 1, 31, 12, tzinfo=UTC)
        >>> times = [noon + timedelta(minutes=minutes) for minutes in range(4)]
        >>> came = pl.DataFrame({"room": ["hall"] * 4, "at": times, "celsius": [31.0, 28.0, 32.0, 20.0]})
        >>> harness.batch(came).tables["warm_rooms"].select("room", "celsius", "alert", "change").rows()
        [('hall', 31.0, 'WARM', 'BEGAN'), ('hall', 20.0, 'WARM', 'ENDED')]
    """
    source, key = as_input(source), names_of(key)
    events, event_time = source.schema, source.event_time
    if not conditions:
        raise Misconfigured(f"job {name}: conditions is empty; give one at least")
    for title, condition in conditions.items():
        if isinstance(condition, Held):
            check_condition(f"job {name}: {title}: begins", condition.begins, events)
            check_condition(f"job {name}: {title}: ends", condition.ends, events)
    own = _columns(conditions, named, subject)
    looked_at = [column for column in events.names if column not in key]
    output_columns = OutputColumns(
        name, source, key, own={field.name: looked_at for field in own} | {subject: looked_at}
    )
    table = output_columns.output(output, by=events.names, more=own)
    state = pa.schema(
        [
            *map(events.field, key),
            *plain_columns(pa.string(), ROLE, nullable=False),
            *optional(events, key),
            *plain_columns(pa.string(), named, subject),
            pa.field(BEGAN_AT, TIMESTAMP),
            pa.field(N_POINTS, pa.int64()),
            pa.field(DEADLINE, TIMESTAMP),
        ]
    )
    # Most events give no row, so state counts those that were evaluated.
    declared_state = State(state, events=pl.col(N_POINTS).sum(), one_per_key=pl.col(ROLE) == "judged")
    step = _Alerts(conditions, key, event_time, events, state, table, named, subject).step
    return step_job(name, source, key, declared_state, step, Append(table, events=pl.lit(0)), settings)


def _columns(conditions: Mapping[str, Held | Listed], named: str, subject: str) -> list[pa.Field]:
    listed = any(isinstance(condition, Listed) for condition in conditions.values())
    return [
        required(named, pa.string(), "The condition"),
        *([column(subject, pa.string(), "What it holds for; NULL of a condition without subjects")] if listed else []),
        required(CHANGE, pa.string(), f"{BEGAN} or {ENDED}"),
        required(BEGAN_AT, TIMESTAMP, "When it began (UTC)"),
    ]


@dataclass(frozen=True)
class _Alerts:
    """The step of `alert`."""

    conditions: Mapping[str, Held | Listed]
    key: tuple[str, ...]
    event_time: str
    events: pa.Schema
    state: pa.Schema
    output: pa.Schema
    named: str
    subject: str

    def step(self, state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
        new, late = on_time(events, self.event_time, clock)
        came = {ROLE: pl.lit("waiting"), N_POINTS: pl.lit(1, pl.Int64)}
        state = pl.concat([state, waiting(new, self.events, self.event_time, self.state, **came)])
        is_due = (state[DEADLINE] <= clock.watermark).fill_null(value=False)
        if not is_due.any():
            return Step(state, empty(self.output), late)
        is_passed = is_due & (state[ROLE] == "waiting")
        others = tie_columns(self.events, self.key, self.event_time)
        ordered = in_order(state.filter(is_passed), self.key, self.event_time, others)
        keys = self._numbered(ordered, state.filter(is_due & ~is_passed))
        others = state.filter(~is_passed).join(keys, on=self.key, how="left", maintain_order="left")
        # Of keys without an event to evaluate now, only what waits for a time changes.
        has_events = (pl.col(KEY) < ordered.starts.size).fill_null(value=False)
        is_timed = pl.col(KEY).is_not_null() & pl.col(self.named).is_in([*self._times]).fill_null(value=False)
        concerned = (has_events | is_timed) & (pl.col(ROLE) != "waiting")
        concerned_rows, unchanged = others.filter(concerned), others.filter(~concerned).drop(KEY)
        opened = concerned_rows.with_row_index(ROW).select(
            pl.col(ROW).cast(pl.Int64) + ordered.events.height,
            ROLE,
            KEY,
            pl.col(self.named).alias(NAME),
            pl.col(self.subject).alias(SUBJECT),
            pl.col(BEGAN_AT).to_physical(),
        )
        time, judged = to_micros(ordered.events[self.event_time]), []
        for name, condition in self.conditions.items():
            mine = opened.filter(pl.col(NAME) == name)
            goes_on = mine.filter((pl.col(KEY) < ordered.starts.size) & (pl.col(ROLE) != "rests"))
            if isinstance(condition, Held):
                judged_now = held(ordered, time, goes_on, name, condition)
            else:
                judged_now = listed(ordered, time, goes_on, name, condition)
            if name in self._times:
                judged_now = after_times(
                    judged_now, ordered, time, mine, name, self._times[name], micros(clock.watermark)
                )
            judged.append(judged_now)
        rows = pl.concat([part.select(self.events.names) for part in (ordered.events, concerned_rows)])
        changes, still_open = (pl.concat(frames) for frames in zip(*judged, strict=True))
        counted = pl.Series(ordered.lasts + 1 - ordered.starts, dtype=pl.Int64)
        evaluated = keys.filter(has_events)
        before = evaluated.join(
            concerned_rows.filter(pl.col(ROLE) == "judged"), on=KEY, how="left", maintain_order="left"
        )
        count = evaluated.drop(KEY).with_columns(
            pl.lit("judged").alias(ROLE), (before[N_POINTS].fill_null(0) + counted).alias(N_POINTS)
        )
        return Step(
            state=pl.concat([empty(self.state), unchanged, count, *self._open(still_open, keys, rows)], how="diagonal"),
            output=pl.concat(
                [rows[changes[ROW].to_numpy()], self._in_columns(changes).drop(ROW)], how="horizontal"
            ).select(self.output.names),
            late=late,
        )

    @cached_property
    def _times(self) -> dict[str, tuple[int, int]]:
        """What a condition's rows wait for, in microseconds; only of conditions that wait for something."""
        return {
            name: (micros(condition.held_for), micros(condition.cool_down))
            for name, condition in self.conditions.items()
            if isinstance(condition, Held) and (condition.held_for or condition.cool_down)
        }

    def _numbered(self, ordered: Ordered, timers: pl.DataFrame) -> pl.DataFrame:
        """Number the keys with events to evaluate, and after them those for which only a time has passed."""
        keys = ordered.events[ordered.starts].select(self.key)
        others = timers.select(self.key).unique().join(keys, on=self.key, how="anti")
        return pl.concat([keys, others]).with_row_index(KEY).with_columns(pl.col(KEY).cast(pl.Int64))

    def _open(self, still_open: pl.DataFrame, keys: pl.DataFrame, rows: pl.DataFrame) -> list[pl.DataFrame]:
        """Return the rows of state of open conditions; one that is not written yet has the columns of its event."""
        named = still_open.join(keys, on=KEY, maintain_order="left").drop(KEY)
        named = self._in_columns(named).with_columns(pl.col(DEADLINE).cast(pl.Datetime("us", "UTC")))
        with_row = named.filter(pl.col(ROW).is_not_null())
        columns = rows.drop(self.key)[with_row[ROW].to_numpy()]
        return [
            named.filter(pl.col(ROW).is_null()).drop(ROW),
            pl.concat([with_row.drop(ROW), columns], how="horizontal"),
        ]

    def _in_columns(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Name the columns of a condition as state and table do."""
        rows = rows.with_columns(pl.col(BEGAN_AT).cast(pl.Datetime("us", "UTC")))
        return rows.rename({NAME: self.named, SUBJECT: self.subject})
