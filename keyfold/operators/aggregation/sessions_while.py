"""Make jobs that cut a key's events into sessions in which a condition holds, and the time between them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from keyfold.columns import plain_columns
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import Source, as_input
from keyfold.keyed.job.state import State
from keyfold.keyed.job.step import DEADLINE, PROCESSING_DEADLINE, Clock, Step
from keyfold.keyed.job.tables import Append, OutputTable, of_own_events
from keyfold.keyed.job.timeouts import Silence, Timeout, as_timeout
from keyfold.keyed.rows.codec import empty
from keyfold.operators.aggregation.aggregates import Aggregate
from keyfold.operators.aggregation.inference import OutputColumns
from keyfold.operators.aggregation.ranges import Rows, ranges
from keyfold.operators.aggregation.rows_in_order import AggregatesInOrder
from keyfold.operators.aggregation.spans import Spans, count_and_start, span_columns
from keyfold.operators.signatures import operator
from keyfold.operators.stepping import on_time, step_job, waiting
from keyfold.schemas import Columns, check_condition, names_of
from keyfold.stream import TIMESTAMP
from keyfold.times import as_duration, micros, to_micros, to_times

HOLDS, ENDED = "holds", "ended"

Flags = NDArray[np.bool_]
_NEVER = 2**62


@operator()
def sessions_while(
    name: str,
    source: Source,
    of: Mapping[str, Aggregate],
    *,
    while_: pl.Expr,
    pause: timedelta | str,
    key: str | Sequence[str],
    output: Columns | None = None,
    silence: Silence,
    between: OutputTable | None = None,
    then: Mapping[str, pl.Expr] | None = None,
    **settings: Any,
) -> KeyedJob:
    """Make a job that writes one row per session in which a condition holds, and one per stretch of time between sessions.

    - **A session** goes from the first event for which `while_` is true to the last; events for which it is not, for less than
      `pause`, are part of it. All other events are of the time between sessions, which ends with the next session. Both end
      with a silence longer than `silence`. In processing time that is from the run that brought the key's last event; events
      that wait are taken first.
    - **The event that ends it**, the first of what follows without a silence, counts in all aggregates except the count.
    - **Written** when the watermark has passed the end: `pause` after the event that ends a session, or the silence.
    - **Late events**: those at or behind the watermark.
    - **Order**: an event waits until the watermark has passed it; then events are taken in order.
    - **State**: per key one row that sums up what the watermark has passed, the events that may be a pause, and those ahead of
      the watermark.

    NaN in a column that may be NULL counts as NULL.

    Args:
        name: the job's name.
        source: the stream, or its `Input`.
        of: the aggregates by column. One is `count()`, and one the first event time.
        while_: the condition of an event; NULL is false.
        pause: event time without the condition that ends a session.
        key: the key columns.
        output: columns of the table of sessions: the key, any of `of`, and of `then`; by default all.
        silence: the longest silence, in event time (`"30m"`), or a `Timeout` in processing time.
        between: the table of the time between sessions, of the same columns; by default `<name>_between`. An `Upsert` has the
            last of each key.
        then: columns computed from the aggregates, `holds` (whether it is a session) and `ended` (by an event, not a silence).
        settings: other arguments of `KeyedJob`.

    Raises:
        Misconfigured: `of` has not one count, or no first event time; or an aggregate does not fit its values.

    Example:
        >>> from datetime import UTC, datetime
        >>> from keyfold import Input, Stream, TestHarness
        >>> from keyfold.operators import count, first, last
        >>> pump = pa.field("pump", pa.string(), nullable=False)
        >>> read = pa.schema([pump, pa.field("at", TIMESTAMP, nullable=False), ("watts", pa.int64())])
        >>> job = sessions_while(
        ...     "pumping", Input(Stream("readings", read, event_time="at"), columns=read),
        ...     {"since": first("at"), "until": last("at"), "n": count()}, while_=pl.col("watts") > 0,
        ...     pause="5m", key="pump", silence="1h",
        ... )
        >>> harness, noon = TestHarness(job), datetime(2026, 1, 31, 12, tzinfo=UTC)
        >>> times = [noon + timedelta(minutes=minutes) for minutes in (0, 2, 4, 6, 11)]
        >>> came = pl.DataFrame({"pump": ["a"] * 5, "at": times, "watts": [7, 0, 7, 0, 0]})
        >>> harness.batch(came).tables["pumping"].select("until", "n").rows() == [(times[3], 3)]
        True
    """
    timeout = as_timeout(f"job {name}: silence", silence)
    source, key, pause = as_input(source), names_of(key), as_duration(f"job {name}: pause", pause)
    events, event_time = source.schema, source.event_time
    check_condition(f"job {name}: while_", while_, events)
    counted, start = count_and_start(name, of, event_time)
    number = pl.col(counted).sum()
    output_columns = OutputColumns(name, source, key, of, then or {}, decided_by=while_.meta.root_names())
    flags = plain_columns(pa.bool_(), HOLDS, ENDED)
    table = output_columns.output(output, hidden=flags)
    aggregates = AggregatesInOrder(
        name,
        of,
        source,
        output_columns.aggregates_in(table),
        [HOLDS, ENDED, DEADLINE, PROCESSING_DEADLINE],
        operator="sessions_while",
    )
    between = between or Append(table, name=f"{name}_between")
    between = output_columns.table(between, table, [*map(events.field, key), *flags])
    between = of_own_events(f"job {name}: between", between, counted)
    counts, starts = aggregates.column(counted), aggregates.column(start)
    state = pa.schema([*span_columns(aggregates, events, key), (HOLDS, pa.bool_()), (DEADLINE, TIMESTAMP)])
    journeys = _While(
        aggregates, while_, pause, key, event_time, counts, starts, events, state, table, timeout, between, then or {}
    )
    # A key has one row of what has passed, beside any number of events.
    kept = State(timeout.add_column(state), events=pl.col(counts).sum(), one_per_key=pl.col(starts).is_not_null())
    return step_job(name, source, key, kept, journeys.step, [Append(table, events=number), between], settings)


@dataclass(frozen=True)
class _While:
    """The step of `sessions_while`. A row of state is an event, or has a `start` and stands for all that has passed of a key."""

    aggregates: AggregatesInOrder
    while_: pl.Expr
    pause: timedelta
    key: tuple[str, ...]
    event_time: str
    counted: str
    start: str
    events: pa.Schema
    state: pa.Schema
    output: pa.Schema
    silence: Timeout
    between: OutputTable
    then: Mapping[str, pl.Expr]

    def step(self, state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
        new, late = on_time(events, self.event_time, clock)
        is_over = self.silence.has_run_out(state, clock)
        came = waiting(new, self.events, self.event_time, self.state, **{self.counted: pl.lit(1, pl.Int64)})
        rows = pl.concat([state.select(self.state.names), came])
        output, between = empty(self.output), empty(self.between.schema)
        if is_over or (rows[DEADLINE] <= clock.watermark).any():
            waits = (pl.col(self.event_time) > clock.watermark) & pl.col(self.start).is_null() & (not is_over)
            cut = _Cut(self, rows.filter(~waits), clock, is_over=is_over)
            output, between = cut.ended(self.output, holds=True), cut.ended(self.between.schema, holds=False)
            rows = pl.concat([cut.still_open(), rows.filter(waits)])
        return Step(
            state=self.silence.renew(rows, state, new, self.key, clock),
            output=output,
            late=late,
            side={self.between.name: between},
        )


class _Cut:
    """Rows that the watermark has passed, in order, cut into parts: sessions, and the time between them.

    Arrays have one value per part. `first` and `last` are its rows; `until` is the row that ends it if one follows without a
    silence, which counts in the aggregates.
    """

    def __init__(self, job: _While, rows: pl.DataFrame, clock: Clock, *, is_over: bool = False) -> None:
        self._job = job
        self._spans = Spans(job.aggregates, rows, job.key, job.event_time, job.events, job.start)
        self._rows, begins_key = self._spans.ordered.events, self._spans.ordered.begins_key
        time, watermark, pause = to_micros(self._rows[job.event_time]), micros(clock.watermark), micros(job.pause)
        holds = self._rows.with_columns(job.while_.fill_null(value=False).alias(HOLDS))[HOLDS].to_numpy().copy()
        firsts = self._spans.whole(self._spans.ordered.starts)[HOLDS]
        known = firsts.is_not_null().to_numpy()
        holds[self._spans.ordered.starts[known]] = firsts.drop_nulls().to_numpy()
        silence = micros(job.silence.after) if job.silence.in_event_time else None
        after_silence = begins_key.copy()
        if silence is not None:
            after_silence[1:] |= np.diff(time) > silence
        self._first = _firsts(time, holds, after_silence, pause)
        self._last = np.append(self._first[1:] - 1, time.size - 1)
        self._holds = holds[self._first]
        is_joined = np.append(~after_silence[self._first[1:]], False)
        self._until = self._last + is_joined

        # A part has ended when another of its key follows, other than what a session may pause in, or when it is due.
        is_followed = np.append(~begins_key[self._first[1:]], False)
        silent_at = np.full(self._last.size, _NEVER)
        if silence is not None:
            silent_at = time[self._last] + silence
        elif is_over:
            # Only the last part of a key can fall silent: events followed the others.
            silent_at = np.where(is_followed, _NEVER, time[self._last])
        following = np.minimum(np.arange(1, self._first.size + 1), self._first.size - 1)
        may_pause = self._holds & is_joined
        stands_at = time[self._until] + pause
        self._is_ended_by_event = np.where(self._holds, may_pause & (stands_at <= silent_at[following]), is_joined)
        due_at = np.where(may_pause, np.minimum(stands_at, silent_at[following]), silent_at)
        is_past = np.where(may_pause, is_followed[following], is_followed)
        self._has_ended = is_past | (due_at <= watermark) | is_over
        self._deadline = to_times(due_at).set(pl.Series(due_at == _NEVER), None)

    def ended(self, schema: pa.Schema, *, holds: bool) -> pl.DataFrame:
        """Return the rows of sessions that have ended, or of the time between."""
        parts = np.flatnonzero(self._has_ended & (self._holds == holds))
        first, until = self._first[parts], self._until[parts]
        used = {column: how for column, how in self._job.then.items() if column in schema.names}
        needed = {*schema.names, *(name for how in used.values() for name in how.meta.root_names())}
        aggregates = self._spans.aggregates(first, until, self._last[parts], needed)
        is_ended = pl.Series(ENDED, self._is_ended_by_event[parts])
        rows = pl.concat([self._rows[first].select(self._job.key), aggregates], how="horizontal")
        rows = rows.with_columns(pl.lit(holds).alias(HOLDS), is_ended)
        return rows.with_columns(**used).select(schema.names)

    def still_open(self) -> pl.DataFrame:
        """Return one row per key of what has passed, and the events that may be a pause of its session."""
        is_open = ~self._has_ended
        # What follows an open session may be a pause of it.
        may_be_pause = np.append(False, is_open[:-1] & self._holds[:-1] & (self._until > self._last)[:-1])
        kept, pauses = np.flatnonzero(is_open & ~may_be_pause), np.flatnonzero(is_open & may_be_pause)
        first, last = self._first[kept], self._last[kept]
        heads = self._spans.whole(last)
        joined = self._spans.joined(first, last)
        heads = heads.with_columns(
            *(joined[name].cast(heads[name].dtype) for name in joined.columns if name in heads.columns),
            **{HOLDS: pl.Series(self._holds[kept]), DEADLINE: self._deadline.gather(kept)},
        )
        _, rows = ranges(self._first[pauses], self._last[pauses])
        return pl.concat(
            [heads, self._spans.whole(rows).with_columns(pl.lit(None, pl.Datetime("us", "UTC")).alias(DEADLINE))]
        )


def _firsts(time: Rows, holds: Flags, after_silence: Flags, pause: int) -> Rows:
    """Return the first row of each part.

    A run is a sequence of rows that all hold or all do not. A run that does not, between two that do, is a pause of one session
    if it is shorter than `pause`, from its first event to the next that holds.
    """
    begins_run = after_silence.copy()
    begins_run[1:] |= holds[1:] != holds[:-1]
    run = np.flatnonzero(begins_run)
    is_joined = ~after_silence[run]
    is_followed = np.append(is_joined[1:], False)
    until_next = np.append(time[run[1:]] - time[run[:-1]], 0)
    is_pause = ~holds[run] & is_joined & is_followed & (until_next < pause)
    goes_on = is_pause.copy()
    goes_on[1:] |= is_pause[:-1]
    return run[~goes_on]
