"""Decide which keys the step is called for next: with which of their events, and at which watermark.

The answer is as if each event had come in a run of its own, in order of event time. An event at `t` brings the watermark to `t`
less the delay, and is counted before what is due by then. So a deadline comes before the events that are later than it by more
than the delay, and after all others.
A key goes through phases: its events up to its next deadline, at a watermark before it; the deadline, without events, at a
watermark before the next event and the next deadline; and so on. A key without a deadline gets its first event alone, since this
may set one.

A call has one watermark. Each phase is valid for an interval of watermarks, and keys whose intervals share a point share a call:
the next point is the least end of an interval, so that the fewest points pierce all of them.

Times are microseconds since 1970.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.int64]
Positions = NDArray[np.intp]
Flags = NDArray[np.bool_]

NEVER = int(np.iinfo(np.int64).max)
"""The deadline of a row without one."""

_ALWAYS = int(np.iinfo(np.int64).min)
_EVENTS, _DEADLINE, _PROCESSING_DEADLINE, _NONE = range(4)
_GROWTH = 16
"""A key without a deadline gets one event, then up to this many times as many in each call: any of them may set one."""


@dataclass(frozen=True)
class Span:
    """The clocks of a batch.

    Attributes:
        start: the watermark before it.
        end: the watermark after it.
        now: processing time.
        delay: how far the watermark stays behind the events.
    """

    start: int
    end: int
    now: int
    delay: int

    def watermark_at(self, times: Times) -> Times:
        """Return the watermark that events at these times bring."""
        return np.clip(times - self.delay, self.start, self.end)

    def watermark_before(self, times: Times) -> Times:
        """Return the watermark before events at these times, if all earlier ones have come."""
        return self.watermark_at(times - 1)


class Timers(NamedTuple):
    """The timers of rows of state, as arrays with one value per row.

    Attributes:
        owners: position of the row's key among the keys of a call.
        deadlines, processing_deadlines: its timers; `NEVER` for none.
    """

    owners: Positions
    deadlines: Times
    processing_deadlines: Times


class Call(NamedTuple):
    """A call of the step.

    Attributes:
        keys: the keys that it is for.
        first, end: the positions of their events, from the first and without the end.
        watermark: its watermark.
    """

    keys: Positions
    first: Positions
    end: Positions
    watermark: int


class Phases:
    """The phases of keys in a batch; arrays have one value per key.

    Args:
        span: the clocks of the batch.
        times: the times of the events, sorted by key and time.
        begins: position of the first event of each key, followed by the number of events.
        timers: the timers of all rows of state, by key.
    """

    def __init__(self, span: Span, times: Times, begins: Positions, timers: Timers) -> None:
        keys = begins.size - 1
        # Those behind the watermark stay together: whether they are late must not depend on how they are divided.
        self._span, self._times = span, np.maximum(times, span.start)
        self._next, self._end = begins[:-1].copy(), begins[1:]
        self._called_at = np.full(keys, span.start)
        # Timers up to these have had their call: a step may keep a row that is due.
        self._fired, self._processing_fired = np.full(keys, _ALWAYS), np.full(keys, _ALWAYS)
        self._deadline, self._processing_deadline = np.full(keys, NEVER), np.full(keys, NEVER)
        self._most, self._was_divided = np.ones(keys, np.int64), np.zeros(keys, bool)
        # The next phase: its kind, the end of its events, and the first and last watermark for which it is valid.
        self._kind, self._until = np.full(keys, _NONE), self._next.copy()
        self._since, self._last = np.full(keys, NEVER), np.full(keys, NEVER)
        self._plan(np.arange(keys), timers)

    def are_done(self, keys: Positions) -> Flags:
        """Return whether keys have no other phase."""
        return self._kind[keys] == _NONE

    def are_last(self, keys: Positions) -> Flags:
        """Return whether keys have no phase before the end of the batch."""
        return self._last[keys] >= self._span.end

    def next_call(self) -> Call | None:
        """Return the next call; None if no key has another phase."""
        keys = np.flatnonzero(self._kind != _NONE)
        if not keys.size:
            return None
        # A step may rely on it that a call for keys that have timed out in processing time is for no others.
        is_processing = self._kind[keys] == _PROCESSING_DEADLINE
        if is_processing.any():
            keys = keys[is_processing]
        point = int(self._last[keys].min())
        # The last phase of a key waits for the end of the batch, which most keys share.
        is_called = (self._since[keys] <= point) & ((point == self._span.end) | ~self.are_last(keys))
        keys = keys[is_called]
        return Call(keys, self._next[keys], self._until[keys], point)

    def divide(self, call: Call, timers: Timers) -> bool:
        """Give fewer events to keys of a call to which some of these have brought a deadline before others.

        Returns whether there is such a key: the call was for nothing then, and the next one takes its place.

        Args:
            call: a call.
            timers: the timers of its keys' rows after it.
        """
        (several,) = np.nonzero(call.end - call.first > 1)
        if not several.size:
            return False
        keys, first, last = call.keys[several], self._times[call.first[several]], self._times[call.end[several] - 1]
        # One that has had its call counts, too: a step may look for rows that are due at each of its calls.
        deadline = _least(timers.owners, timers.deadlines, np.full(call.keys.size, _ALWAYS))[0][several]
        is_passed = (first < last) & (deadline <= self._span.watermark_before(last))
        if not is_passed.any():
            return False
        keys, first, deadline = keys[is_passed], first[is_passed], deadline[is_passed]
        # What is due at the batch's start is due after the first instant of events already.
        up_to = np.where(deadline <= self._span.start, first, deadline + self._span.delay)
        until = self._first_after(keys, np.maximum(up_to, first))
        watermark = self._span.watermark_at(self._times[until - 1])
        self._until[keys] = until
        self._last[keys] = np.maximum(self._since[keys], np.minimum(self._last[keys], watermark))
        self._was_divided[keys] = True
        return True

    def done(self, call: Call, timers: Timers) -> None:
        """Plan the next phase of the keys of a call.

        Args:
            call: the call.
            timers: the timers of its keys' rows after it.
        """
        keys, kind = call.keys, self._kind[call.keys]
        self._called_at[keys] = call.watermark
        fired, processing_fired = keys[kind == _DEADLINE], keys[kind == _PROCESSING_DEADLINE]
        self._fired[fired] = self._deadline[fired]
        self._processing_fired[processing_fired] = self._processing_deadline[processing_fired]
        self._next[keys] = call.end
        self._most[keys] = np.where(kind == _EVENTS, _GROWTH * (call.end - call.first), 1)
        self._plan(keys, timers)

    def _plan(self, keys: Positions, timers: Timers) -> None:
        span, called_at = self._span, self._called_at[keys]
        deadline, following = _least(timers.owners, timers.deadlines, self._fired[keys])
        processing, _ = _least(timers.owners, timers.processing_deadlines, self._processing_fired[keys])
        self._deadline[keys], self._processing_deadline[keys] = deadline, processing
        begin, end = self._next[keys], self._end[keys]
        has_events = begin < end
        watermark = np.full(keys.size, span.end)
        watermark[has_events] = span.watermark_before(self._times[begin[has_events]])
        is_processing = processing <= span.now
        is_deadline = ~is_processing & (deadline <= watermark)
        is_events = ~is_processing & ~is_deadline & has_events
        before_deadline = np.where(deadline <= span.end, deadline - 1, span.end)
        last = np.where(is_deadline, np.minimum(following - 1, watermark), span.end)
        last = np.where(is_processing, np.minimum(before_deadline, watermark), last)
        until, watermark = self._events_until(keys[is_events], deadline[is_events])
        last[is_events] = np.minimum(before_deadline[is_events], watermark)
        self._until[keys] = begin
        self._until[keys[is_events]] = until
        since = np.where(is_deadline, np.maximum(called_at, deadline), called_at)
        self._since[keys], self._last[keys] = since, np.maximum(since, last)
        kind = np.full(keys.size, _NONE)
        for which, flags in ((_EVENTS, is_events), (_DEADLINE, is_deadline), (_PROCESSING_DEADLINE, is_processing)):
            kind[flags] = which
        self._kind[keys] = kind

    def _events_until(self, keys: Positions, deadline: Times) -> tuple[Positions, Times]:
        """Return the end of the events that keys get next, and the last watermark that these may have by their times."""
        begin, end = self._next[keys], self._end[keys]
        has_deadline = deadline != NEVER
        # A deadline after the watermark of the last of them comes after all.
        up_to = np.where(deadline <= self._span.end, deadline + self._span.delay, NEVER)
        # Not more than `most` where any event may set another deadline; but whole instants.
        is_limited = ~has_deadline | self._was_divided[keys]
        at = np.minimum(begin + self._most[keys], end) - 1
        up_to = np.where(is_limited, np.minimum(up_to, self._times[at]), up_to)
        until = self._first_after(keys, up_to)
        watermark = self._span.watermark_at(self._times[until - 1])
        return until, np.where(has_deadline & ((until == end) | ~is_limited), self._span.end, watermark)

    def _first_after(self, keys: Positions, time: Times) -> Positions:
        """Return the position of the first of the keys' events that is after a time, by bisection."""
        low, high = self._next[keys], self._end[keys].copy()
        while (is_open := low < high).any():
            middle = (low + high) // 2
            goes_up = is_open & (self._times[np.minimum(middle, self._times.size - 1)] <= time)
            low = np.where(goes_up, middle + 1, low)
            high = np.where(is_open & ~goes_up, middle, high)
        return low


def _least(owners: Positions, timers: Times, above: Times) -> tuple[Times, Times]:
    """Return the least timer of each key that is greater than `above`, and the least that is greater than it; `NEVER` for none."""
    least, following = np.full(above.size, NEVER), np.full(above.size, NEVER)
    is_set = timers != NEVER
    is_set &= timers > above[owners]
    owners, timers = owners[is_set], timers[is_set]
    if not owners.size:
        return least, following
    order = np.lexsort((timers, owners))
    owners, timers = owners[order], timers[order]
    begins_key = np.append(True, owners[1:] != owners[:-1])
    least[owners[begins_key]] = timers[begins_key]
    is_greater = timers > least[owners]
    owners, timers = owners[is_greater], timers[is_greater]
    begins_key = np.append(True, owners[1:] != owners[:-1])[: owners.size]
    following[owners[begins_key]] = timers[begins_key]
    return least, following
