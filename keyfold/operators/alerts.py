"""Make jobs that write a row when a condition of a key begins, and one when it ends."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from keyfold.columns import column, plain_columns, required
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import STEP_DECIDES, Source, as_input
from keyfold.keyed.job.state import State
from keyfold.keyed.job.step import DEADLINE, Clock, Step
from keyfold.keyed.job.tables import Append
from keyfold.keyed.rows.codec import empty
from keyfold.operators.aggregation.inference import OutputColumns
from keyfold.operators.ordering import Ordered, in_order, waiting
from keyfold.schemas import Columns, names_of
from keyfold.stream import TIMESTAMP
from keyfold.times import to_micros

CHANGE, BEGAN, ENDED = "change", "BEGAN", "ENDED"
BEGAN_AT, ROLE, N_POINTS = "began_at", "role", "n_points"

Numbers = NDArray[np.int64]

_NEVER = np.iinfo(np.int64).min


@dataclass(frozen=True)
class Held:
    """A condition that begins at an event for which `begins` is true, and ends at one for which `ends` is.

    Between the two it stays as it is (hysteresis). `ends` is never true where `begins` is; NULL is false.
    """

    begins: pl.Expr
    ends: pl.Expr


@dataclass(frozen=True)
class Listed:
    """A condition of each of some subjects, such as areas.

    Attributes:
        find: a function of events, in order of key and time, that returns a row per event and subject: `row` (the event's
            place), `subject`, and `begins`, sorted by subject and row. The condition begins at an event with `begins`, and
            ends at the first event of the key that is not listed for the subject.
    """

    find: Callable[[pl.DataFrame], pl.DataFrame]


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
    - **Silent keys**: a condition stays open for ever; only an event ends it.
    - **State**: per key one row with the number of evaluated events, one row per open condition, and the waiting events. `role`
      tells them apart: `judged`, `holds`, `waiting`.

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
    made = _columns(conditions, named, subject)
    looked_at = [one for one in events.names if one not in key]
    output_columns = OutputColumns(name, source, key, made={one.name: looked_at for one in made} | {subject: looked_at})
    table = output_columns.output(output, by=events.names, more=made)
    optional = [one.with_nullable(True) for one in events if one.name not in key]
    state = pa.schema(
        [
            *(events.field(one) for one in key),
            *plain_columns(pa.string(), ROLE, nullable=False),
            *optional,
            *plain_columns(pa.string(), named, subject),
            pa.field(BEGAN_AT, TIMESTAMP),
            pa.field(N_POINTS, pa.int64()),
            pa.field(DEADLINE, TIMESTAMP),
        ]
    )
    return KeyedJob(
        name,
        replace(source, final_at=STEP_DECIDES),
        key,
        # Most events give no row, so state counts those that were evaluated.
        State(state, events=pl.col(N_POINTS).sum(), one_per_key=pl.col(ROLE) == "judged"),
        _Alerts(conditions, key, event_time, events, state, table, named, subject).step,
        Append(table, events=pl.lit(0)),
        closes_in_order=True,
        **settings,
    )


def _columns(conditions: Mapping[str, Held | Listed], named: str, subject: str) -> list[pa.Field]:
    listed = any(isinstance(one, Listed) for one in conditions.values())
    return [
        required(named, pa.string(), "The condition"),
        *([column(subject, pa.string(), "What it holds for; NULL of a condition without subjects")] if listed else []),
        required(CHANGE, pa.string(), f"{BEGAN} or {ENDED}"),
        required(BEGAN_AT, TIMESTAMP, "When it began (UTC)"),
    ]


class _Judged(NamedTuple):
    """What began or ended (`_CHANGES`), and what is open after that (`_OPEN`)."""

    changes: pl.DataFrame
    open: pl.DataFrame


_CHANGES = {"row": pl.Int64, "name": pl.String, "subject": pl.String, CHANGE: pl.String, BEGAN_AT: pl.Int64}
"""A condition that began or ended at a row; `began_at` in microseconds since 1970."""

_OPEN = {"key": pl.Int64, "name": pl.String, "subject": pl.String, BEGAN_AT: pl.Int64}
"""An open condition of a key, by the key's number."""


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
        is_late = events[self.event_time] <= clock.previous_watermark
        late = events.filter(is_late)
        came = {ROLE: pl.lit("waiting"), N_POINTS: pl.lit(1, pl.Int64)}
        state = pl.concat([state, waiting(events.filter(~is_late), self.events, self.event_time, self.state, **came)])
        is_due = (state[DEADLINE] <= clock.watermark).fill_null(value=False)
        if not is_due.any():
            return Step(state, empty(self.output), late)
        ties = [one for one in self.events.names if one not in (*self.key, self.event_time)]
        ordered = in_order(state.filter(is_due), self.key, self.event_time, ties)
        keys = ordered.events[ordered.starts].select(self.key).with_row_index("#key")
        keys = keys.with_columns(pl.col("#key").cast(pl.Int64))
        others = state.filter(~is_due).join(keys, on=self.key, how="left", maintain_order="left")
        # Rows of keys without an event to evaluate now do not change.
        concerned = others["#key"].is_not_null() & (others[ROLE] != "waiting")
        known, unchanged = others.filter(concerned), others.filter(~concerned).drop("#key")
        opened = known.filter(pl.col(ROLE) == "holds").select(
            key="#key", name=self.named, subject=self.subject, began_at=pl.col(BEGAN_AT).to_physical()
        )
        time = to_micros(ordered.events[self.event_time])
        judged = []
        for name, one in self.conditions.items():
            mine = opened.filter(pl.col("name") == name)
            judged.append((_held if isinstance(one, Held) else _listed)(ordered, time, mine, name, one))
        changes = pl.concat([one.changes for one in judged])
        rows = ordered.events[changes["row"].to_numpy()].select(self.events.names)
        rows = pl.concat([rows, self._in_columns(changes).drop("row")], how="horizontal")
        counted = pl.Series(ordered.lasts + 1 - ordered.starts, dtype=pl.Int64)
        before = keys.join(known.filter(pl.col(ROLE) == "judged"), on="#key", how="left", maintain_order="left")
        count = keys.drop("#key").with_columns(
            pl.lit("judged").alias(ROLE), (before[N_POINTS].fill_null(0) + counted).alias(N_POINTS)
        )
        still_open = pl.concat([one.open for one in judged]).join(
            keys, left_on="key", right_on="#key", maintain_order="left"
        )
        still_open = self._in_columns(still_open).drop("key").with_columns(pl.lit("holds").alias(ROLE))
        return Step(
            state=pl.concat([empty(self.state), unchanged, count, still_open], how="diagonal"),
            output=rows.select(self.output.names),
            late=late,
        )

    def _in_columns(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Name the columns of a condition as state and table do."""
        rows = rows.with_columns(pl.col(BEGAN_AT).cast(pl.Datetime("us", "UTC")))
        return rows.rename({"name": self.named, "subject": self.subject})


def _held(ordered: Ordered, time: Numbers, opened: pl.DataFrame, name: str, one: Any) -> _Judged:
    """Evaluate a condition along the events; `opened` has the keys for which it is open before them."""
    rows, number, first = ordered.events, ordered.key_number, ordered.starts
    carried = np.full(first.size, _NEVER)
    carried[opened["key"].to_numpy()] = opened[BEGAN_AT].to_numpy()
    decisive = rows.select(begins=one.begins.fill_null(value=False), ends=one.ends.fill_null(value=False))
    is_begin, index = decisive["begins"].to_numpy(), np.arange(rows.height)
    # The last decisive event before each one; before the first, the open conditions decide.
    last = np.maximum.accumulate(np.where(is_begin | decisive["ends"].to_numpy(), index, -1))
    is_carried = last < first[number]
    is_on = np.where(is_carried, carried[number] != _NEVER, is_begin[last])
    before = np.append(False, is_on[:-1])
    before[first] = carried != _NEVER
    began, ended = np.flatnonzero(is_on & ~before), np.flatnonzero(~is_on & before)
    since = np.maximum.accumulate(np.where(is_on & ~before, index, -1))
    began_at = np.where(since < first[number], carried[number], time[since])
    changes = pl.concat([_changes(began, name, BEGAN, time[began]), _changes(ended, name, ENDED, began_at[ended])])
    on = np.flatnonzero(is_on[ordered.lasts])
    return _Judged(changes, _open(on, name, began_at[ordered.lasts][on]))


def _listed(ordered: Ordered, time: Numbers, opened: pl.DataFrame, name: str, one: Any) -> _Judged:
    """Evaluate a condition of each subject: it begins at an event with `begins`, and ends at the first that is not listed."""
    rows, first, last = ordered.events, ordered.starts, ordered.lasts
    found = one.find(rows)
    row, subject, key = found["row"].to_numpy(), found["subject"], ordered.key_number[found["row"].to_numpy()]
    # A run: consecutive events of a key that are all listed for one subject.
    begins = np.ones(row.size, dtype=bool)
    begins[1:] = (subject != subject.shift()).to_numpy()[1:] | (np.diff(row) != 1) | (np.diff(key) != 0)
    run = np.flatnonzero(begins)
    end = row[np.append(run[1:], row.size)[: run.size] - 1]
    of, what, start = key[run], subject.gather(run), row[run]
    # The first event of a run that begins the condition; the number of rows if none does.
    entered = np.where(found["begins"].to_numpy(), row, rows.height)
    entered = np.minimum.reduceat(entered, run) if run.size else run
    carried = pl.DataFrame({"key": of, "subject": what, "start": start}).join(
        opened.with_columns(start=pl.Series(first[opened["key"].to_numpy()])),
        on=["key", "subject", "start"],
        how="left",
        maintain_order="left",
    )[BEGAN_AT]
    goes_on = carried.is_not_null().to_numpy()
    is_entered = ~goes_on & (entered < rows.height)
    is_on = goes_on | is_entered
    began_at = np.where(goes_on, carried.fill_null(0).to_numpy(), time[np.minimum(entered, rows.height - 1)])
    ends = is_on & (end < last[of])
    stays = is_on & ~ends
    # What was open before ends at the key's first event if that is not listed.
    left = opened.join(
        pl.DataFrame({"key": of[goes_on], "subject": what.filter(pl.Series(goes_on))}),
        on=["key", "subject"],
        how="anti",
    )
    changes = [
        _changes(entered[is_entered], name, BEGAN, time[entered[is_entered]], what.filter(pl.Series(is_entered))),
        _changes(end[ends] + 1, name, ENDED, began_at[ends], what.filter(pl.Series(ends))),
        _changes(first[left["key"].to_numpy()], name, ENDED, left[BEGAN_AT], left["subject"]),
    ]
    return _Judged(pl.concat(changes), _open(of[stays], name, began_at[stays], what.filter(pl.Series(stays))))


def _changes(rows: Any, name: str, change: str, began_at: Any, subject: pl.Series | None = None) -> pl.DataFrame:
    columns = {"row": rows, "name": name, "subject": subject, CHANGE: change, BEGAN_AT: began_at}
    return pl.DataFrame(columns, schema=_CHANGES)


def _open(key: Any, name: str, began_at: Any, subject: pl.Series | None = None) -> pl.DataFrame:
    return pl.DataFrame({"key": key, "name": name, "subject": subject, BEGAN_AT: began_at}, schema=_OPEN)
