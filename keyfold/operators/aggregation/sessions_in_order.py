"""The step of sessions that an event or a condition ends: it takes the events of keys in order, and keeps sums of them.

A row of state is an event, or the sum of the first events of a session: all columns of the last of them, and the parts of the
aggregates. Events are summed when the watermark has passed them, so no earlier one can still come, and the sum is the first row
of its key. The first row of each session has its deadline. With `Until`, a marker with `closed_at` stands for a session that
has ended.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from keyfold.errors import Misconfigured
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.step import DEADLINE, Clock, Step, StepFunction
from keyfold.keyed.job.timeouts import Timeout
from keyfold.keyed.rows.codec import empty
from keyfold.operators.aggregation.aggregates import Aggregate
from keyfold.operators.aggregation.cutting import NEVER
from keyfold.operators.aggregation.ranges import Rows, ranges
from keyfold.operators.aggregation.rows_in_order import AggregatesInOrder
from keyfold.operators.aggregation.session_ends import InTime, Until, While, cut_until, cut_while
from keyfold.operators.ordering import in_order
from keyfold.operators.stepping import optional, tie_columns, waiting
from keyfold.stream import TIMESTAMP
from keyfold.times import micros, to_micros, to_times

CLOSED_AT, HOLDS, ENDED = "closed_at", "holds", "ended"

_TIME = pl.Datetime("us", "UTC")


def count_and_start(job: str, of: Mapping[str, Aggregate], event_time: str) -> tuple[str, str]:
    """Return the aggregates that are the count and the first event time.

    Raises:
        Misconfigured: there is not one of each.
    """
    counts = [name for name, aggregate in of.items() if aggregate.counts]
    starts = [name for name, aggregate in of.items() if aggregate.kind == "first" and aggregate.column == event_time]
    if len(counts) != 1 or len(starts) != 1:
        raise Misconfigured(f"job {job}: sessions need one count, and one first({event_time!r})")
    return counts[0], starts[0]


class Written(NamedTuple):
    """What is written of sessions, or of the time between.

    Attributes:
        table: the table's name; empty for the main one.
        schema: its columns.
        of_sessions: whether it has sessions.
        condition: which of these; by default all.
    """

    table: str
    schema: pa.Schema
    of_sessions: bool = True
    condition: pl.Expr = pl.lit(value=True)


@dataclass(frozen=True)
class SessionsInOrder:
    """The step.

    Attributes:
        aggregates: the aggregates.
        rule: where sessions end, but for silences.
        gap: the longest silence in a session.
        key, event_time: columns of the events.
        events: all of them, in the order that breaks ties.
        counted, start: the columns of state with the count, and with the first event time, which an event lacks.
        then: columns computed from the aggregates, `holds` and `ended`.
        written: what is written; first the main table.
    """

    aggregates: AggregatesInOrder
    rule: Until | While
    gap: Timeout
    key: tuple[str, ...]
    event_time: str
    events: pa.Schema
    counted: str
    start: str
    then: Mapping[str, pl.Expr]
    written: Sequence[Written]
    delay: timedelta = timedelta(0)

    @property
    def state(self) -> pa.Schema:
        """The columns of state."""
        of_events = [*map(self.events.field, self.key), *self.aggregates.state, *optional(self.events, self.key)]
        times = [pa.field(CLOSED_AT, TIMESTAMP), pa.field(DEADLINE, TIMESTAMP)]
        return self.gap.add_column(pa.schema([*of_events, pa.field(HOLDS, pa.bool_()), *times]))

    def bound(self, job: KeyedJob) -> StepFunction:
        """Return the step, which needs the delay of the job's input."""
        return replace(self, delay=job.only_input.watermark_delay).step

    def step(self, state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
        is_marker, closed_for = state[CLOSED_AT].is_not_null(), self._closed_for
        markers, rows = state.filter(is_marker).select(*self.key, CLOSED_AT), state.filter(~is_marker)
        # Without events then: one that waits may end the session, after which those of this batch are late.
        timed_out = self.gap.has_run_out(rows, clock)
        is_late = self._are_late(events, markers, clock)
        late, new = [events.filter(is_late)], self._as_state(events.filter(~is_late))
        # Most events only lengthen a session: they are added to its rows, which stay as they are until it may end.
        longer = self._only_lengthened(rows, new, clock).join(markers, on=self.key, how="anti")
        added = new.clear()
        if longer.height:
            added = new.join(longer, on=self.key, how="semi", maintain_order="left")
            rows, new = (part.join(longer, on=self.key, how="anti", maintain_order="left") for part in (rows, new))
        both = pl.concat([rows, new])
        changed = pl.concat([markers.select(self.key), both.select(self.key)]).unique()
        waits = self._wait(clock, timed_out=timed_out)
        written, still_open, both = (
            [empty(rows_of.schema) for rows_of in self.written],
            both.filter(waits),
            both.filter(~waits),
        )
        if both.height:
            sessions = _Sessions(self, both, clock, timed_out=timed_out)
            written = [sessions.ended(rows_of) for rows_of in self.written]
            still_open = pl.concat([still_open, sessions.still_open()])
            late.append(sessions.late())
            ended = sessions.markers()
            markers = pl.concat([markers.join(ended, on=self.key, how="anti"), ended])
        markers = markers.with_columns((pl.col(CLOSED_AT) + closed_for).alias(DEADLINE))
        markers = markers.filter(pl.col(DEADLINE) > clock.watermark)
        still_open, (output, *others) = self.gap.renew(still_open, rows, new, self.key, clock), written
        return Step(
            add=pl.concat([empty(self.state), added, still_open, markers], how="diagonal"),
            drop=changed,
            output=output,
            late=pl.concat(late),
            side={rows_of.table: frame for rows_of, frame in zip(self.written[1:], others, strict=True)},
        )

    @property
    def _closed_for(self) -> timedelta:
        return self.rule.closed_for if isinstance(self.rule, Until) else timedelta(0)

    def _are_late(self, events: pl.DataFrame, markers: pl.DataFrame, clock: Clock) -> pl.Series:
        """Return whether each event is behind the watermark, or of a key whose session has ended."""
        time = events[self.event_time]
        is_late = time <= clock.previous_watermark
        if not markers.height:
            return is_late
        closed_at = events.select(self.key).join(markers, on=self.key, how="left", maintain_order="left")[CLOSED_AT]
        return is_late | (time <= closed_at + self._closed_for).fill_null(value=False)

    def _wait(self, clock: Clock, *, timed_out: bool) -> pl.Expr:
        """Return whether a row is an event that is not looked at before the watermark passes it."""
        if timed_out or isinstance(self.rule, Until):
            # One that is ahead of the watermark may end a session at once, and tells when one ends.
            return pl.lit(value=False)
        return pl.col(self.start).is_null() & (pl.col(self.event_time) > clock.watermark)

    def _as_state(self, events: pl.DataFrame) -> pl.DataFrame:
        rows = events.with_columns(pl.lit(1, pl.Int64).alias(self.counted))
        if isinstance(self.rule, While):
            return waiting(rows, self.events, self.event_time, self.state)
        return pl.concat([empty(self.state), rows], how="diagonal")

    def _only_lengthened(self, rows: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> pl.DataFrame:
        """Return the keys whose sessions cannot end yet: none of their events ends it, or is before its sums."""
        if not (isinstance(self.rule, Until) and self.gap.in_event_time):
            return events.select(self.key).clear()
        # The first row of a session has its deadline.
        since = pl.col(self.event_time).alias("#since")
        heads = rows.filter(pl.col(DEADLINE) > clock.watermark).select(*self.key, since)
        if not heads.height:
            return heads.select(self.key)
        with_start = events.join(heads, on=self.key, how="left")
        ends = self.rule.condition.fill_null(value=False) | (pl.col(self.event_time) < pl.col("#since"))
        return heads.select(self.key).join(with_start.filter(ends), on=self.key, how="anti")


class _Sessions:
    """Rows of state and batch in order of key and time, cut into sessions."""

    def __init__(self, job: SessionsInOrder, rows: pl.DataFrame, clock: Clock, *, timed_out: bool) -> None:
        self._job, self._state, self._clock = job, rows, clock
        # Few rows have aggregates, so those columns are not put in order.
        narrow = rows.select(*job.events.names, job.start, HOLDS).with_row_index("#at")
        ordered = in_order(narrow, job.key, job.event_time, tie_columns(job.events, job.key, job.event_time))
        self._rows, self._is_event = ordered.events, ordered.events[job.start].is_null().to_numpy()
        self._time = to_micros(self._rows[job.event_time])
        # Not by `select`, which makes one row of a condition that is constant.
        condition = pl.coalesce(HOLDS, job.rule.condition).fill_null(value=False).alias("#holds")
        holds = self._rows.with_columns(condition)["#holds"].to_numpy()
        in_time = InTime(ordered, self._time, holds, job.gap, job.delay, clock, timed_out)
        rule = job.rule
        self._cut = cut_until(rule, in_time) if isinstance(rule, Until) else cut_while(rule, in_time)
        rows = self._rows
        if not self._is_event.all():
            stored = self._state.select(field.name for field in job.aggregates.state)
            rows = rows.with_columns(stored[rows["#at"]])
        self._parts = job.aggregates.parts(rows, self._is_event)

    def ended(self, table: Written) -> pl.DataFrame:
        """Return the rows of a table of what has ended."""
        job = self._job
        cut = self._cut.some(self._cut.is_over & (self._cut.is_session == table.of_sessions))
        needed = {*table.schema.names, *table.condition.meta.root_names()}
        then = {name: value for name, value in job.then.items() if name in needed}
        needed.update(root for value in then.values() for root in value.meta.root_names())
        parts = self._joined(cut.first, cut.until, cut.last, needed)
        keys = self._rows[cut.first].select(job.key)
        rows = pl.concat([keys, job.aggregates.finished(parts)], how="horizontal").with_columns(
            pl.lit(table.of_sessions).alias(HOLDS), pl.Series(ENDED, cut.by_event)
        )
        return rows.with_columns(**then).filter(table.condition).select(table.schema.names)

    def still_open(self) -> pl.DataFrame:
        """Return the rows of what is open: events that the watermark has passed are summed, the others unchanged."""
        still_open = self._cut.some(~self._cut.is_over)
        first, last, ends_at = still_open.first, still_open.last, still_open.ends_at
        n_passed = np.append(0, np.cumsum(self._time <= micros(self._clock.watermark)))
        head = first + np.maximum(n_passed[last + 1] - n_passed[first] - 1, 0)
        session, rows = ranges(head, still_open.end)
        rows_of_state, heads = self._state[self._rows["#at"][rows]], np.flatnonzero(np.diff(session, prepend=-1))
        is_longer = head > first
        summed = self._joined(first[is_longer], head[is_longer], head[is_longer])
        # Not by `scatter`, which Polars lacks for lists and structs.
        taken = np.arange(rows_of_state.height)
        taken[heads[is_longer]] = rows_of_state.height + np.arange(np.count_nonzero(is_longer))
        flags = pl.Series(HOLDS, [None], pl.Boolean).new_from_index(0, rows_of_state.height)
        if isinstance(self._job.rule, While):
            # What has passed counts as it did, also after the condition has changed.
            has_passed = n_passed[first + 1] > n_passed[first]
            flags = flags.scatter(heads[has_passed], pl.Series(still_open.is_session[has_passed]))
        due = to_times(ends_at).set(pl.Series(ends_at == NEVER), None)
        return rows_of_state.with_columns(
            *(
                pl.concat([rows_of_state[name], summed[name].cast(rows_of_state[name].dtype)]).gather(taken)
                for name in summed.columns
                if name in rows_of_state.columns
            ),
            flags,
            pl.Series(DEADLINE, [None], _TIME).new_from_index(0, rows_of_state.height).scatter(heads, due),
        )

    def late(self) -> pl.DataFrame:
        """Return the events that came after the end of their session."""
        return self._rows[self._cut.late].select(self._job.events.names)

    def markers(self) -> pl.DataFrame:
        """Return the last end of a session of each key; none where that has no event time."""
        is_over = self._cut.is_over & (self._cut.ends_at < NEVER) & isinstance(self._job.rule, Until)
        ends = self._rows[self._cut.first[is_over]].select(self._job.key)
        ends = ends.with_columns(to_times(self._cut.ends_at[is_over]).alias(CLOSED_AT))
        return ends.unique(self._job.key, keep="last", maintain_order=True)

    def _joined(self, first: Rows, until: Rows, last: Rows, names: Collection[str] | None = None) -> pl.DataFrame:
        return self._job.aggregates.joined(self._parts, self._is_event, first, until, last, names)
