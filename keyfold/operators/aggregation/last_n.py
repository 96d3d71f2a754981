"""Make jobs that aggregate the last n events of each key at each event: moving averages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
import polars as pl
import pyarrow as pa
from pydantic import Field

from keyfold.columns import column, required
from keyfold.errors import Misconfigured
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import Source, as_input
from keyfold.keyed.job.state import State, StoredAggregates
from keyfold.keyed.job.step import DEADLINE, Clock, Step
from keyfold.keyed.job.tables import Append, OutputTable, of_own_events
from keyfold.keyed.job.timeouts import Silence, Timeout, as_timeout
from keyfold.keyed.rows.codec import empty
from keyfold.operators.aggregation.aggregates import Aggregate
from keyfold.operators.aggregation.cutting import after_silence, spans_from
from keyfold.operators.aggregation.inference import OutputColumns
from keyfold.operators.aggregation.ranges import Rows
from keyfold.operators.aggregation.rows_in_order import AggregatesInOrder
from keyfold.operators.ordering import in_order
from keyfold.operators.signatures import operator
from keyfold.operators.stepping import on_time, step_job, tie_columns
from keyfold.schemas import Columns, names_of
from keyfold.stream import TIMESTAMP
from keyfold.times import micros, to_micros, to_times

REASON = "reason"
SESSION_START, SESSION_END, N_EVENTS = "session_start", "session_end", "n_events"
_AT_ONCE = 1_000_000
"""Number of events of windows whose values are listed at a time; each event is in up to `n` windows."""


@operator()
def last_n(
    name: str,
    source: Source,
    of: Mapping[str, Aggregate],
    *,
    n: Annotated[int, Field(ge=1)],
    key: str | Sequence[str],
    gap: Silence,
    from_n: int | None = None,
    latest: OutputTable | None = None,
    sessions: OutputTable | None = None,
    output: Columns | None = None,
    **settings: Any,
) -> KeyedJob:
    """Make a job that writes, with each event of a key, the aggregates of the key's last `n` events in event time.

    - **Sessions**: a window has events of one session, which are at most `gap` apart. After a longer silence the key
      starts with an empty window. In processing time a session ends when no run has brought an event for `gap`; waiting
      events are taken first.
    - **Order**: an event waits until the watermark has passed it, and is taken in order. So arrival within the
      delay and batch boundaries change no row, to the last bit.
    - **Late events**: those at or behind the watermark, whatever the state of their key.
    - **Silent keys**: when the watermark, or processing time, has reached the end of its silence, a session has its row in
      `sessions`. A session that never had `from_n` events has one row of those that it had.
    - **State**: per key the last `n - 1` events, and the waiting events.

    `reason` is a column of both tables: `WINDOW_FULL` with `n` events, `WINDOW_FILLING` before, `TIMEOUT` at the end of a
    session.

    Args:
        name: the job's name.
        source: the stream, or its `Input`.
        n: number of events in a full window.
        of: the aggregates by column.
        key: the key columns.
        gap: the longest time between two events of a session, in event time (`"2h"`), or a `Timeout` in processing time.
        from_n: number of events from which a session gives rows; by default `n`.
        latest: a table to upsert with the last row of each key.
        sessions: the table with a row per ended session; by default `<name>_sessions`, with the key, `session_start`,
            `session_end` and `n_events`. One that is given has any of these, `reason`, and those of `of` that are a count, or the
            first or last event time; without `n_events` it must count the session's events (`Append(events=…)`). An `Upsert` has
            the last session of each key.
        output: columns of the table: the key, any of `of`, and `reason`; by default all of them.
        settings: other arguments of `KeyedJob`.

    Raises:
        Misconfigured: `n` is less than 1, `from_n` is not from 1 to `n`, or an aggregate is none of these.

    Example:
        >>> from datetime import UTC, datetime, timedelta
        >>> from keyfold import Input, Stream, TestHarness, required
        >>> from keyfold.operators import mean
        >>> user, at = required("user", pa.string(), "Who"), required("at", TIMESTAMP, "When")
        >>> payments = Stream("payments", pa.schema([user, at, ("amount", pa.float64())]), event_time="at")
        >>> paid = Input(payments, columns=("user", "at", "amount"))
        >>> job = last_n("means", paid, {"mean": mean("amount")}, n=2, key="user", gap="1h")
        >>> harness, noon = TestHarness(job), datetime(2026, 1, 31, 12, tzinfo=UTC)
        >>> times = [noon + timedelta(minutes=minutes) for minutes in (20, 0, 40)]
        >>> came = pl.DataFrame({"user": ["ann"] * 3, "at": times, "amount": [2.0, 1.0, 6.0]})
        >>> harness.batch(came).tables["means"].select("user", "mean").rows()
        [('ann', 1.5), ('ann', 4.0)]
    """
    if from_n is not None and not 1 <= from_n <= n:
        raise Misconfigured(f"job {name}: from_n is {from_n}; it must be 1 at least and at most n, {n}")
    source, key, timeout = as_input(source), names_of(key), as_timeout(f"job {name}: gap", gap)
    events, event_time = source.schema, source.event_time
    output_columns = OutputColumns(name, source, key, of, decided_by=[event_time])
    reason = column(REASON, pa.string(), "WINDOW_FULL, WINDOW_FILLING or TIMEOUT")
    table = output_columns.output(output, more=[reason])
    aggregates = AggregatesInOrder(name, of, source, output_columns.aggregates_in(table), [REASON], operator="last_n")
    of_key = [events.field(column) for column in key]
    latest = None if latest is None else output_columns.table(latest, table, [*of_key, reason])
    sessions = of_own_events(f"job {name}: sessions", sessions or _sessions_table(name, events, key), N_EVENTS)
    # Of a session there are the aggregates that its events need not be kept for.
    whole = {
        name_of: aggregate
        for name_of, aggregate in of.items()
        if aggregate.counts or (aggregate.kind in ("first", "last") and aggregate.column == event_time)
    }
    of_sessions = [*of_key, *_sessions_table(name, events, key).schema, reason]
    sessions = replace(output_columns, of=whole).table(sessions, table, of_sessions)
    state = [pa.field(SESSION_START, TIMESTAMP), pa.field(N_EVENTS, pa.int64(), nullable=False)]
    window = _LastN(
        aggregates,
        key,
        event_time,
        tie_columns(events, key, event_time),
        n,
        n if from_n is None else from_n,
        timeout,
        table,
        latest,
        sessions,
    )
    columns = timeout.add_column(pa.schema([*events, *state, pa.field(DEADLINE, TIMESTAMP)]))
    # A key has one open session, whose last event has the session's count.
    open_session = pl.col(SESSION_START).is_not_null() & (pl.col(N_EVENTS) > 0)
    # State has events: a new aggregate is of all of them.
    stored = StoredAggregates({name_of: {} for name_of in of}, rows=pl.lit(value=False))
    state_of_job = State(columns, events=pl.col(N_EVENTS).sum(), one_per_key=open_session, aggregates=stored)
    tables = [Append(table, events=pl.lit(0)), *(further for further in (latest, sessions) if further is not None)]
    return step_job(name, source, key, state_of_job, window.step, tables, settings)


def _sessions_table(job: str, events: pa.Schema, key: tuple[str, ...]) -> OutputTable:
    columns = [
        *map(events.field, key),
        required(SESSION_START, TIMESTAMP, "Event time of the session's first event (UTC)"),
        required(SESSION_END, TIMESTAMP, "Event time of its last event (UTC)"),
        required(N_EVENTS, pa.int64(), "How many events"),
    ]
    return Append(columns, name=f"{job}_sessions")


@dataclass(frozen=True)
class _LastN:
    """The step of `last_n`.

    In state, `session_start` is NULL while an event waits for the watermark. `n_events` is the number of events that a row
    stands for: 1 if it waits; in a session, the last event has the count of the whole session, and the others 0.
    """

    aggregates: AggregatesInOrder
    key: tuple[str, ...]
    event_time: str
    ties: list[str]
    n: int
    from_n: int
    silence: Timeout
    output: pa.Schema
    latest: OutputTable | None
    sessions: OutputTable

    def step(self, state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
        came, late = on_time(events, self.event_time, clock)
        is_over = self.silence.has_run_out(state, clock)
        coming = came.with_columns(
            pl.lit(None, pl.Datetime("us", "UTC")).alias(SESSION_START),
            pl.lit(1, pl.Int64).alias(N_EVENTS),
            pl.col(self.event_time).alias(DEADLINE),
        )
        rows = pl.concat([state.select(coming.columns), coming])
        is_due = (rows[DEADLINE] <= clock.watermark).fill_null(value=False) | is_over
        waits = rows[SESSION_START].is_null() & ~is_due
        output, side = empty(self.output), dict[str, pl.DataFrame]()
        if is_due.any():
            moved = _Sessions(self, rows.filter(~waits), clock, is_over=is_over)
            written, rows = moved.rows(), pl.concat([moved.state(), rows.filter(waits)])
            output, side[self.sessions.name] = written.select(self.output.names), moved.ended()
            if self.latest is not None:
                is_last = pl.any_horizontal(pl.col(column) != pl.col(column).shift(-1) for column in self.key)
                newest = written.filter(is_last.fill_null(value=True))
                side[self.latest.name] = newest.select(self.latest.schema.names)
        return Step(state=self.silence.renew(rows, state, came, self.key, clock), output=output, late=late, side=side)


class _Sessions:
    """Events from state and batch that the watermark has passed, sorted by key and time, and split into sessions.

    Some arrays have one value per event, and others one per session. `session` maps an event to its session, `position` is its
    place among the session's events here. `_first` and `_last` are the rows of a session's events here, `_n_events` is its
    number of events so far, including those no longer in state.

    Args:
        passed: the events.
        is_over: whether the keys timed out in processing time, so that every session has ended.
    """

    def __init__(self, window: _LastN, passed: pl.DataFrame, clock: Clock, *, is_over: bool = False) -> None:
        self._window, silence = window, window.silence
        ordered = in_order(passed, window.key, window.event_time, window.ties)
        self._events, times = ordered.events, to_micros(ordered.events[window.event_time])
        spans = spans_from(ordered, after_silence(ordered, times, silence))
        self._first, self._last, self._session = spans.ordered.starts, spans.ordered.lasts, spans.ordered.key_number
        self._position = np.arange(len(times)) - self._first[self._session]
        self._n_events = np.add.reduceat(self._events[N_EVENTS].to_numpy(), self._first)
        # The first event of a session may no longer be in state.
        start = self._events[SESSION_START].gather(self._first)
        self._starts = start.fill_null(self._events[window.event_time].gather(self._first))
        self._deadline = times[self._last] + micros(silence.after)
        self._closed = np.full(len(self._first), is_over)
        if silence.in_event_time:
            # A session has also ended if its key has started a later one, whatever the watermark.
            self._closed = ~spans.is_latest | (self._deadline <= micros(clock.watermark))

    def rows(self) -> pl.DataFrame:
        """Return one row per newly passed event once its session has enough; one row for a session that ends with fewer."""
        window = self._window
        count = self._position + (self._n_events - (self._last - self._first))[self._session]
        gives_row = self._events[SESSION_START].is_null().to_numpy() & (count >= window.from_n)
        gives_row[self._last[self._closed & (self._n_events < window.from_n)]] = True
        rows = np.flatnonzero(gives_row)
        counted = np.minimum(count[rows], window.n)
        number = pl.Series(counted)
        reason = (
            pl.when(number == window.n)
            .then(pl.lit("WINDOW_FULL"))
            .when(number >= window.from_n)
            .then(pl.lit("WINDOW_FILLING"))
            .otherwise(pl.lit("TIMEOUT"))
        )
        keys, aggregates = self._events[rows].select(window.key), self._aggregates(rows - counted + 1, rows)
        return pl.concat([keys, aggregates], how="horizontal").with_columns(reason.alias(REASON))

    def _aggregates(self, first: Rows, last: Rows) -> pl.DataFrame:
        of, is_event = self._window.aggregates, np.ones(self._events.height, dtype=bool)
        parts = of.parts(self._events, is_event)
        at_once = _AT_ONCE // self._window.n + 1 if of.lists else max(last.size, 1)
        several = [slice(start, start + at_once) for start in range(0, max(last.size, 1), at_once)]
        return pl.concat(of.finished(of.joined(parts, is_event, first[some], last[some])) for some in several)

    def state(self) -> pl.DataFrame:
        """Return the events of open sessions that later windows need."""
        from_end = self._last[self._session] - np.arange(len(self._session))
        # Keep at least one event, even for windows of one: it has the session's count and deadline.
        rows = np.flatnonzero(~self._closed[self._session] & (from_end < max(self._window.n - 1, 1)))
        session, is_last = self._session[rows], pl.Series(from_end[rows] == 0)
        is_due = is_last & self._window.silence.in_event_time
        return self._events[rows].with_columns(
            self._starts.gather(session).alias(SESSION_START),
            pl.when(is_last).then(pl.Series(self._n_events[session])).otherwise(0).alias(N_EVENTS),
            pl.when(is_due).then(to_times(self._deadline[session])).alias(DEADLINE),
        )

    def ended(self) -> pl.DataFrame:
        """Return one row per ended session."""
        window, closed = self._window, self._last[self._closed]
        schema, columns = window.sessions.schema, {name: self._events[name].gather(closed) for name in window.key}
        columns[SESSION_END] = self._events[window.event_time].gather(closed)
        columns[SESSION_START], columns[N_EVENTS] = (
            self._starts.filter(pl.Series(self._closed)),
            pl.Series(self._n_events[self._closed]),
        )
        for name in schema.names:
            if (aggregate := window.aggregates.of.get(name)) is not None:
                whole = pl.Series(self._n_events) if aggregate.counts else self._starts
                is_last = aggregate.kind == "last"
                columns[name] = (
                    self._events[aggregate.column].gather(closed) if is_last else whole.filter(pl.Series(self._closed))
                )
        return pl.DataFrame(columns).with_columns(pl.lit("TIMEOUT").alias(REASON)).select(schema.names)
