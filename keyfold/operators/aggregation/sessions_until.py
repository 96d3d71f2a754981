"""Make jobs that write one row per session of a key: events up to one that ends it, or up to a silence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import Source, as_input
from keyfold.keyed.job.state import State
from keyfold.keyed.job.step import DEADLINE, PROCESSING_DEADLINE, Clock, Step, StepFunction
from keyfold.keyed.job.tables import Append, OutputTable
from keyfold.keyed.job.timeouts import Silence, Timeout, as_timeout
from keyfold.keyed.rows.codec import empty
from keyfold.operators.aggregation.aggregates import Aggregate
from keyfold.operators.aggregation.inference import OutputColumns
from keyfold.operators.aggregation.ranges import Rows, ranges
from keyfold.operators.aggregation.rows_in_order import AggregatesInOrder
from keyfold.operators.aggregation.spans import Spans, count_and_start, span_columns
from keyfold.operators.signatures import operator
from keyfold.operators.stepping import step_job
from keyfold.schemas import Columns, check_condition, names_of
from keyfold.stream import TIMESTAMP
from keyfold.times import as_duration, micros, to_micros, to_times

CLOSED_AT = "closed_at"


@operator()
def sessions_until(
    name: str,
    source: Source,
    of: Mapping[str, Aggregate],
    *,
    until: pl.Expr,
    key: str | Sequence[str],
    silence: Silence,
    closed_for: timedelta | str,
    at_once: bool = False,
    then: Mapping[str, pl.Expr] | None = None,
    selected: Sequence[tuple[OutputTable, pl.Expr]] = (),
    output: Columns | None = None,
    **settings: Any,
) -> KeyedJob:
    """Make a job that writes one row per session of a key: its events up to the first that ends it, or up to a silence.

    - **A session closes** at its first event for which `until` is true, or `silence` after its last event, once the watermark
      has passed that. With `at_once`, it closes at its first such event as soon as that arrives. In processing time the silence
      is from the run that brought the last event; events that wait are taken first.
    - **Late events**: those at or behind the watermark, and those of a key whose session has closed, until `closed_for` after
      the close. Then the key may have another session. After a silence in processing time it may have one at once.
    - **Order**: without `at_once`, neither arrival nor batch boundaries change a row.
    - **State**: of an open session one row that sums up what the watermark has passed, and the events ahead of the watermark. Of
      a closed one, one row for `closed_for`.

    Args:
        name: the job's name.
        source: the stream, or its `Input`.
        of: the aggregates by column. One is `count()`, and one the first event time.
        until: condition on an event that ends its session; NULL is false.
        key: the key columns.
        output: columns of the table: the key, any of `of`, and those of `then`; by default all.
        silence: the silence that ends a session, in event time (`"30m"`), or a `Timeout` in processing time.
        closed_for: event time for which a closed session is remembered.
        at_once: whether an event that ends a session does so when it arrives.
        then: columns computed from the aggregates.
        selected: further tables of the same columns, each with a condition on the rows that it has too.
        settings: other arguments of `KeyedJob`.

    Raises:
        Misconfigured: `of` has no count, or no first event time; or an aggregate does not fit its values.

    Example:
        >>> from datetime import UTC
        >>> from keyfold import Input, Stream, TestHarness
        >>> from keyfold.operators import count, first, last
        >>> user = pa.field("user", pa.string(), nullable=False)
        >>> click = pa.schema([user, pa.field("at", TIMESTAMP, nullable=False), ("page", pa.string())])
        >>> job = sessions_until(
        ...     "visits", Input(Stream("clicks", click, event_time="at"), columns=click),
        ...     {"since": first("at"), "until": last("page"), "clicks": count()}, until=pl.col("page") == "bye",
        ...     key="user", silence="30m", closed_for="1h",
        ...     output=pa.schema([user, ("until", pa.string()), ("clicks", pa.int64())]),
        ... )
        >>> harness, noon = TestHarness(job), datetime(2026, 1, 31, 12, tzinfo=UTC)
        >>> times = [noon, noon + timedelta(minutes=20)]
        >>> clicks = pl.DataFrame({"user": ["ann"] * 2, "at": times, "page": ["hello", "bye"]})
        >>> harness.batch(clicks).tables["visits"].rows()
        [('ann', 'bye', 2)]
    """
    timeout = as_timeout(f"job {name}: silence", silence)
    source, key, closed_for = as_input(source), names_of(key), as_duration(f"job {name}: closed_for", closed_for)
    events, event_time = source.schema, source.event_time
    check_condition(f"job {name}: until", until, events)
    output_columns = OutputColumns(name, source, key, of, then or {}, decided_by=until.meta.root_names())
    table = output_columns.output(output)
    counted, start = count_and_start(name, of, event_time)
    taken = [CLOSED_AT, DEADLINE, PROCESSING_DEADLINE]
    aggregates = AggregatesInOrder(
        name, of, source, output_columns.aggregates_in(table), taken, operator="sessions_until"
    )
    of_key = [events.field(one) for one in key]
    selected = [(output_columns.table(one, table, of_key), where) for one, where in selected]
    stretch = pa.schema(span_columns(aggregates, events, key))
    state = pa.schema([*stretch, pa.field(CLOSED_AT, TIMESTAMP), pa.field(DEADLINE, TIMESTAMP)])
    counts, starts = aggregates.column(counted), aggregates.column(start)
    rides = _Sessions(
        name, aggregates, until, key, event_time, counts, starts, stretch, timeout.add_column(state), events, table,
        timeout, closed_for, at_once, then or {}, selected,
    )  # fmt: skip
    number = pl.col(counts).sum()
    # A key has one row of passed events, or one of a closed session, beside any number of waiting events.
    one_per_key = pl.col(starts).is_not_null() | pl.col(CLOSED_AT).is_not_null()
    kept, tables = State(rides.state, events=number, one_per_key=one_per_key), [one for one, _ in selected]
    return step_job(name, source, key, kept, rides, [Append(table, events=pl.col(counted).sum()), *tables], settings)


class _Rules(NamedTuple):
    """When sessions close.

    Attributes:
        after: silence after the last event that closes a session; None if it is in processing time (see `is_over`).
        gap: longest time between two events of one session; after a longer one, the session was closed. None: no limit.
        watermark: the watermark.
        is_over: whether the keys have timed out in processing time, and their sessions close now.
    """

    after: timedelta | None
    gap: timedelta | None
    watermark: datetime
    is_over: bool = False


class _Cut(NamedTuple):
    """The result of cutting events to sessions.

    Attributes:
        closed: one row per closed session, with the aggregates; `closed_at` is NULL if the close has no event time.
        still_open: the rows of open sessions; the first of each has the session's `deadline`.
        late: events after their session's close.
    """

    closed: pl.DataFrame
    still_open: pl.DataFrame
    late: pl.DataFrame


@dataclass(frozen=True)
class _Sessions:
    """The step of `sessions_until`.

    A row of `stretch` is one or more consecutive events of a session: all columns of the last event, and the aggregates. A
    single event has no `start`. Only the first row of a session has more than one event, since no earlier one can still arrive.
    """

    name: str
    aggregates: AggregatesInOrder
    until: pl.Expr
    key: tuple[str, ...]
    event_time: str
    counted: str
    start: str
    stretch: pa.Schema
    state: pa.Schema
    events: pa.Schema
    output: pa.Schema
    silence: Timeout
    closed_for: timedelta
    at_once: bool
    then: Mapping[str, pl.Expr]
    selected: Sequence[tuple[OutputTable, pl.Expr]]
    watermark_delay: timedelta = timedelta(0)

    def bound(self, job: KeyedJob) -> StepFunction:
        """Return the step, which needs the delay of the job's input."""
        return replace(self, watermark_delay=job.only_input.watermark_delay).step

    def step(self, state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
        rules, stretch = self._rules(clock), self.stretch.names
        is_marker = state[CLOSED_AT].is_not_null()
        going_on, markers = state.filter(~is_marker), state.filter(is_marker).select(*self.key, CLOSED_AT)
        # Without events then: one that waits may end the session, after which those of this batch are late.
        rules = rules._replace(is_over=self.silence.has_run_out(going_on, clock))
        is_late = events[self.event_time] <= clock.previous_watermark
        if markers.height:
            closed_at = events.select(self.key).join(markers, on=self.key, how="left", maintain_order="left")[CLOSED_AT]
            is_late |= (events[self.event_time] <= closed_at + self.closed_for).fill_null(value=False)
        on_time = events.filter(~is_late)
        # Most events only lengthen a session: they are added to its rows, which stay as they are until it may close.
        longer = self._only_lengthened(going_on, on_time, clock).join(markers, on=self.key, how="anti")
        added = empty(self.stretch)
        if longer.height:
            added = self.single(on_time.join(longer, on=self.key, how="semi", maintain_order="left"))
            going_on, on_time = (
                rows.join(longer, on=self.key, how="anti", maintain_order="left") for rows in (going_on, on_time)
            )
        ordered = _Ordered(self, pl.concat([going_on.select(stretch), self.single(on_time)]), rules)
        others = pl.concat([ordered.keys, markers.select(self.key)]).unique()
        cut = ordered.cut()
        closed = cut.closed.with_columns(**self.then)
        markers = self._markers(markers, cut.closed)
        markers = markers.with_columns((pl.col(CLOSED_AT) + self.closed_for).alias(DEADLINE))
        still_open = self.silence.renew(cut.still_open, going_on, on_time, self.key, clock)
        kept = [empty(self.state), still_open, markers.filter(pl.col(DEADLINE) > clock.watermark), added]
        late = [events.filter(is_late), cut.late.select(self.events.names)]
        side = {table.name: closed.filter(where).select(table.schema.names) for table, where in self.selected}
        output = closed.select(self.output.names)
        return Step(add=pl.concat(kept, how="diagonal"), drop=others, output=output, late=pl.concat(late), side=side)

    def _only_lengthened(self, going_on: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> pl.DataFrame:
        """Return the keys whose sessions cannot close yet: none of their events ends it, or is before its sums."""
        if not self.silence.in_event_time:
            return events.select(self.key).clear()
        # The first row of a session has its deadline.
        since = pl.col(self.event_time).alias("#since")
        heads = going_on.filter(pl.col(DEADLINE) > clock.watermark).select(*self.key, since)
        if not heads.height:
            return heads.select(self.key)
        known = events.join(heads, on=self.key, how="left")
        ends = self.until.fill_null(value=False) | (pl.col(self.event_time) < pl.col("#since"))
        return heads.select(self.key).join(known.filter(ends), on=self.key, how="anti")

    def single(self, events: pl.DataFrame) -> pl.DataFrame:
        """Convert events to rows of one event."""
        counted = events.with_columns(pl.lit(1, pl.Int64).alias(self.counted))
        return pl.concat([empty(self.stretch), counted], how="diagonal")

    def _rules(self, clock: Clock) -> _Rules:
        if not self.silence.in_event_time:
            return _Rules(None, None, clock.watermark)
        # The watermark is behind the newest event by the delay. If the events had arrived one by one, a session that closes at
        # once would have fallen silent only after the silence plus the delay.
        gap = self.silence.after + self.watermark_delay if self.at_once else self.silence.after
        return _Rules(self.silence.after, gap, clock.watermark)

    def _markers(self, markers: pl.DataFrame, closed: pl.DataFrame) -> pl.DataFrame:
        """Return the markers of closed sessions, with the last close that has an event time."""
        new = closed.select(*self.key, CLOSED_AT).drop_nulls(CLOSED_AT).unique(self.key, keep="last")
        return pl.concat([markers.join(new, on=self.key, how="anti"), new])


class _Ordered:
    """Rows of state and batch, ordered by key and time; arrays have one value per row.

    `ends` are the rows after which a session closes, unless it has closed before, and the last row of each key.
    """

    def __init__(self, sessions: _Sessions, stretches: pl.DataFrame, rules: _Rules) -> None:
        self._sessions, self._rules = sessions, rules
        self._spans = Spans(
            sessions.aggregates, stretches, sessions.key, sessions.event_time, sessions.events, sessions.start
        )
        ordered = self._spans.ordered
        self._rows, self._starts, self._lasts = ordered.events, ordered.starts, ordered.lasts
        self._time = to_micros(self._rows[sessions.event_time])
        # Not by `select`, which makes one row of a condition that is constant.
        self._ends_it = self._rows.with_columns(sessions.until.fill_null(value=False).alias("#ends"))[
            "#ends"
        ].to_numpy()
        is_end = self._ends_it.copy()
        if rules.gap is not None:
            is_end[:-1] |= np.diff(self._time) > micros(rules.gap)
        is_end[self._lasts] = True
        self._ends = np.flatnonzero(is_end)

    @property
    def keys(self) -> pl.DataFrame:
        """The keys of the rows, each once."""
        return self._rows[self._starts].select(self._sessions.key)

    def cut(self) -> _Cut:
        """Close the sessions that are due, and sum up the rows of the others that the watermark has passed."""
        rules, watermark, closed_for = self._rules, micros(self._rules.watermark), micros(self._sessions.closed_for)
        after = 0 if rules.after is None else micros(rules.after)
        closed, still_open, late = [], [], [self._rows.clear()]
        first, last = self._starts, self._lasts
        # Loops more than once only if a key has another session after `closed_for`.
        while first.size or not closed:
            end = self._ends[np.searchsorted(self._ends, first)]
            ends_it = self._ends_it[end]
            closed_at = self._time[end] + np.where(ends_it, 0, after)
            has_time = ends_it | (rules.after is not None)
            closes = (has_time & (closed_at <= watermark)) | (ends_it & self._sessions.at_once) | rules.is_over
            times = pl.select(pl.when(pl.Series(has_time)).then(to_times(closed_at))).to_series()
            closed.append(self._summed(first[closes], end[closes], times.filter(pl.Series(closes))))
            still_open.append(self._folded(first[~closes], last[~closes], times.filter(pl.Series(~closes))))
            goes_on = closes & (end < last)
            first, last, closed_at = end[goes_on] + 1, last[goes_on], closed_at[goes_on]
            session, rows = ranges(first, last)
            is_late = self._time[rows] <= closed_at[session] + closed_for
            late.append(self._rows[rows[is_late]])
            # Late events come before the others.
            first = first + np.bincount(session[is_late], minlength=first.size)
            first, last = first[first <= last], last[first <= last]
        return _Cut(pl.concat(closed), pl.concat(still_open), pl.concat(late))

    def _summed(self, first: Rows, last: Rows, closed_at: pl.Series) -> pl.DataFrame:
        """Build one row per closed session."""
        keys = self._rows[first].select(self._sessions.key)
        return pl.concat([keys, self._spans.aggregates(first, last)], how="horizontal").with_columns(
            closed_at.alias(CLOSED_AT)
        )

    def _folded(self, first: Rows, last: Rows, deadline: pl.Series) -> pl.DataFrame:
        """Return the rows of open sessions: passed events summed up in one row, the others unchanged."""
        passed_until = np.append(0, np.cumsum(self._time <= micros(self._rules.watermark)))
        n_passed = passed_until[last + 1] - passed_until[first]
        head = first + np.maximum(n_passed - 1, 0)
        session, rows = ranges(head, last)
        kept = self._spans.whole(rows)
        heads = np.flatnonzero(np.diff(session, prepend=-1))
        is_longer = head > first
        joined = self._spans.joined(first[is_longer], head[is_longer])
        # Not by `scatter`, which Polars lacks for lists and structs.
        taken = np.arange(kept.height)
        taken[heads[is_longer]] = kept.height + np.arange(np.count_nonzero(is_longer))
        return kept.with_columns(
            *(
                pl.concat([kept[name], joined[name].cast(kept[name].dtype)]).gather(taken)
                for name in joined.columns
                if name in kept.columns
            ),
            pl.Series(DEADLINE, [None], pl.Datetime("us", "UTC"))
            .new_from_index(0, kept.height)
            .scatter(heads, deadline),
        )
