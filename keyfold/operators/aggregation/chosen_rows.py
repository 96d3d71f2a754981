"""Make jobs that keep rows of each key: the first, the last, or those with the highest values."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from keyfold.columns import column
from keyfold.errors import Misconfigured
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import Source, as_input
from keyfold.keyed.job.state import State
from keyfold.keyed.job.step import DEADLINE, Clock, Step
from keyfold.keyed.job.tables import Append, OutputTable, Upsert
from keyfold.operators.aggregation.combined_rows import counting_input, number_of_events
from keyfold.operators.aggregation.row_choice import IS_NEW, Choice, Columns, First, Highest, Last
from keyfold.operators.signatures import operator
from keyfold.operators.stepping import optional, step_job, tie_columns
from keyfold.schemas import field_of, names_of
from keyfold.stream import TIMESTAMP

RANK = "rank"
"""Output column: the rank of a row within its key, from 1."""

_IS_LATEST = "#latest"


@operator()
def rows(
    name: str,
    source: Source,
    *,
    keep: First | Last | Highest,
    key: str | Sequence[str],
    counted: str = "",
    changes: bool = False,
    **settings: Any,
) -> KeyedJob:
    """Make a job that keeps rows of each key: the first, the last, or those with the highest values.

    | `keep` | the table | events are late |
    |---|---|---|
    | `First()` | rows are appended when the watermark has passed them; none is taken back | behind the watermark, unless they repeat a row that has been written and has not expired |
    | `Last()` | one row per key, upserted when a later one arrives: the stream without duplicates of its key | with `expires`, as much behind the watermark, so that no older row replaces a newer one; else none |
    | `Highest("points", n=3)` | the rows with their `rank`; key and `rank` are unique; upserted when a rank changes | none |

    - **Order**: event time, ties by all other columns. Neither arrival nor batch boundaries change a row of `First`, or the last
      version of another.
    - **`expires`**: without it, keys never close. With it, the table `<name>_duplicates` of `First` has the number of events that
      repeat a row, if any do, once it has expired. The table `<name>_expired` of `Last` has the number of events of a key that
      left state. How many such rows a key has depends on the batches, and their sum does not.
    - **State**: the rows, with the number of events that each stands for; of `First` their key and time, and the waiting events.
      `Highest`, and `Last` that never expires, drop all other rows before the shuffle.

    Args:
        name: the job's name.
        source: the stream, or its `Input`, whose columns the table has.
        keep: which rows are kept.
        key: the key columns, such as an order's number.
        counted: the column of state with the number of events; by default `n_duplicates` of `First`, else `n_events`.
        changes: whether what changes is written to `changes.<name>`, for other jobs (`KeyedJob.changes`); not of `First`.
        settings: other arguments of `KeyedJob`.

    Raises:
        Misconfigured: the column of `Highest` may be NULL, or events have no such column; or `changes` are of `First`.

    Example:
        >>> from datetime import UTC, datetime, timedelta
        >>> from keyfold import Input, Stream, TestHarness
        >>> fields = ("game", pa.string()), ("at", pa.timestamp("us", "UTC")), ("score", pa.int64())
        >>> score = pa.schema([pa.field(name, kind, nullable=False) for name, kind in fields])
        >>> scores, noon = Input(Stream("scores", score, event_time="at"), columns=score), datetime(2026, 1, 31, 12, tzinfo=UTC)
        >>> played = {"game": ["go"] * 3, "at": [noon, noon + timedelta(hours=1), noon], "score": [7, 8, 9]}
        >>> for keep in First(), Last(), Highest("score", n=2):
        ...     job = rows("chosen_scores", scores, keep=keep, key="game")
        ...     print(TestHarness(job).batch(pl.DataFrame(played)).tables["chosen_scores"].drop("game", "at").rows())
        [(7,)]
        [(8,)]
        [(9, 1), (8, 2)]
    """
    source, key = as_input(source), names_of(key)
    events, event_time, counted = source.schema, source.event_time, counted or keep.counted
    if isinstance(keep, Highest):
        for ranking in (keep.column, *keep.ties):
            field_of(f"job {name}: keep", ranking, events)
        if events.field(keep.column).nullable:
            raise Misconfigured(
                f"job {name}: keep: {keep.column} may be NULL, and has no rank then; it must be a column of events that is never "
                "NULL (nullable=False)"
            )
    if changes and isinstance(keep, First):
        raise Misconfigured(
            f"job {name}: changes are of rows that are written again, which first rows are not: leave it out"
        )
    # A column of the key is never NULL where the condition leaves out such events.
    table = pa.schema([field.with_nullable(source.may_lack(field)) if field.name in key else field for field in events])
    own = [table.field(field) for field in (*key, event_time)]
    if isinstance(keep, Highest):
        meaning = "Place among the rows of the key, from 1"
        table = table.append(column(RANK, pa.int64(), meaning, lineage=(keep.column,), nullable=False))
    number = number_of_events(counted, event_time)
    ended = Append(pa.schema([*own, number]), name=f"{name}_{keep.ended}", events=pl.col(counted).sum())
    has_deadline = keep.waits or keep.expires is not None
    state = [*own, *optional(events, (*key, event_time))] if keep.waits else [*table]
    state = pa.schema([*state, number, *([pa.field(DEADLINE, TIMESTAMP)] if has_deadline else [])])
    columns = Columns(key, event_time, tie_columns(events, key, event_time))
    step = _Rows(keep, columns, table.names, counted, state.names, has_deadline, ended)
    # State keeps the number of all events of its keys, so the conservation check must not count them in an upsert table too.
    upserted = (*key, RANK) if isinstance(keep, Highest) else key
    main = Append(table) if keep.waits else Upsert(table, upserted, events=pl.lit(0), changes=changes)
    tables = [main] if keep.expires is None else [main, ended]
    declared_state = State(state, events=pl.col(counted).sum(), one_per_key=~step.waits if keep.waits else None)
    if not has_deadline:
        each, counted_columns = {counted: pl.lit(1, pl.Int64)}, events.append(number)
        source = counting_input(source, counted, derive=each, columns=counted_columns, combine=step.combine)
    return step_job(name, source, key, declared_state, step.step, tables, settings)


@dataclass(frozen=True)
class _Rows:
    """The step of `rows`. A row of state is one that is kept, with the number of its events; or of `First` a waiting event.

    A waiting event is due at its time. The number of events of a row of `First` leaves out the one that was written. A column of
    events may be called `deadline` where rows of state have none.
    """

    keep: Choice
    columns: Columns
    table: list[str]
    counted: str
    state: list[str]
    has_deadline: bool
    ended: OutputTable

    @property
    def waits(self) -> pl.Expr:
        """Whether a row of state is a waiting event; never NULL."""
        return pl.col(DEADLINE).eq_missing(pl.col(self.columns.event_time))

    def combine(self, events: pl.DataFrame) -> pl.DataFrame:
        """Keep rows of some events, before the shuffle."""
        return self._kept(events.with_columns(pl.lit(value=True).alias(IS_NEW))).select(events.columns)

    def step(self, state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
        """Keep rows of those of state and of a batch."""
        keep, time, late = self.keep, pl.col(self.columns.event_time), None
        state = state.with_columns((self.waits if keep.waits else pl.lit(value=False)).alias(IS_NEW))
        if (is_late := keep.are_late(state, events, self.columns, clock)) is not None:
            late, events = events.filter(is_late), events.filter(~is_late)
        came = [pl.lit(value=True).alias(IS_NEW), *([time.alias(DEADLINE)] if keep.waits else [])]
        came += [] if self.counted in events.columns else [pl.lit(1, pl.Int64).alias(self.counted)]
        both = pl.concat([state, events.with_columns(came)], how="diagonal")
        is_ahead = pl.col(IS_NEW) & (time > clock.watermark) if keep.waits else pl.lit(value=False)
        chosen = self._kept(both.filter(~is_ahead))
        stays, side = pl.lit(value=True), dict[str, pl.DataFrame]()
        if self.has_deadline:
            until = pl.lit(None, pl.Datetime("us", "UTC")) if keep.expires is None else time + keep.expires
            chosen = chosen.with_columns(until.alias(DEADLINE))
            stays = pl.col(_IS_LATEST) & (pl.col(DEADLINE) > clock.watermark).fill_null(value=True)
        if keep.expires is not None:
            ended = chosen.filter(~stays, pl.col(self.counted) > 0)
            side[self.ended.name] = ended.select(self.ended.schema.names)
        # Of a row that is written once, state has the key and the time.
        remembered = [*self.ended.schema.names, DEADLINE] if keep.waits else self.state
        remains = [both.clear(), both.filter(is_ahead), chosen.filter(stays).select(remembered)]
        rows = pl.concat(remains, how="diagonal").select(self.state)
        return Step(state=rows, output=self._written(chosen, state), late=late, side=side)

    def _kept(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the row of each span of rows, with the number of its events, and its rank."""
        spans = self.keep.spans(rows, self.columns)
        ordered, starts = spans.ordered, spans.ordered.starts
        counts = ordered.events[self.counted].to_numpy()
        chosen = ordered.events[ordered.lasts if isinstance(self.keep, Last) else starts]
        number = pl.Series(self.counted, np.add.reduceat(counts, starts) if starts.size else counts, pl.Int64)
        # The row itself is written, and is no duplicate.
        number = number - chosen[IS_NEW] if isinstance(self.keep, First) else number
        rank = pl.Series(RANK, spans.place + 1, pl.Int64)
        return chosen.with_columns(
            number, pl.Series(_IS_LATEST, spans.is_latest), *([rank] if isinstance(self.keep, Highest) else [])
        )

    def _written(self, chosen: pl.DataFrame, state: pl.DataFrame) -> pl.DataFrame:
        if isinstance(self.keep, Highest):
            # By value: a row may move to a rank where the table has an equal row.
            return chosen.select(self.table).join(
                state, on=self.table, how="anti", nulls_equal=True, maintain_order="left"
            )
        # If the row comes from state, it is in the table already.
        is_written = pl.col(IS_NEW) if isinstance(self.keep, First) else pl.col(IS_NEW) & pl.col(_IS_LATEST)
        return chosen.filter(is_written).select(self.table)
