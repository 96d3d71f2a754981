"""Where sessions end that do not only end with a silence: at an event (`Until`), or with a condition (`While`).

The rows of keys are cut in order, also those that the watermark has not passed. What such rows say is not certain, so a session
that depends on them ends when the watermark has passed them.
"""

from datetime import timedelta
from typing import NamedTuple

import numpy as np
import polars as pl

from keyfold.keyed.job.step import Clock
from keyfold.keyed.job.tables import OutputTable
from keyfold.keyed.job.timeouts import Timeout
from keyfold.operators.aggregation.cutting import NEVER, Flags, after_silence, spans_from
from keyfold.operators.aggregation.ranges import Rows, ranges
from keyfold.operators.ordering import Ordered
from keyfold.times import Micros, micros, to_duration
from keyfold.validation import argument, declaration


@declaration("until")
class Until:
    """Sessions that end at their first event for which a condition holds.

    Attributes:
        condition: the condition on an event; NULL is false.
        closed_for: event time for which a session that has ended is remembered, also as text (`"1h"`): until then, events of its
            key are late.
        at_once: whether an event ends a session when it arrives, and not when the watermark passes it.
    """

    condition: pl.Expr
    closed_for: timedelta = argument(converter=to_duration)
    at_once: bool = False


@declaration("while")
class While:
    """Sessions from the first event for which a condition holds to the last, and the time between them.

    Attributes:
        condition: the condition on an event; NULL is false.
        pause: event time without the condition that ends a session, also as text; events of a shorter one are part of it.
        between: the table of the time between sessions, which has their columns; by default `<name>_between`. An `Upsert` has
            the last of each key.
    """

    condition: pl.Expr
    pause: timedelta = argument(converter=to_duration)
    between: OutputTable | None = None


class InTime(NamedTuple):
    """Rows of keys in order, and the clock by which they are cut.

    Attributes:
        ordered: the rows.
        time: their times, in microseconds.
        holds: the condition.
        gap: the longest silence in a session.
        delay: how far the watermark is behind the newest event.
        clock: the clock.
        timed_out: whether the keys have timed out in processing time, and all that is open ends.
    """

    ordered: Ordered
    time: Micros
    holds: Flags
    gap: Timeout
    delay: timedelta
    clock: Clock
    timed_out: bool


class Cut(NamedTuple):
    """Rows of keys in order, cut into sessions and the time between them; arrays have one value for each of these.

    Attributes:
        first, last: the rows that count.
        until: the last row of which all other aggregates are: the event that ends a session may be the first of what follows.
        end: the last row of what is open: rows after `last` may become a part of it.
        is_session: whether it is a session, and not time between two.
        is_over: whether it has ended.
        by_event: whether an event ended it, and not a silence.
        ends_at: when it ends if no other event comes, in microseconds; `NEVER` if that has no event time.
        late: rows that came after the end of their key's session.
    """

    first: Rows
    last: Rows
    until: Rows
    end: Rows
    is_session: Flags
    is_over: Flags
    by_event: Flags
    ends_at: Micros
    late: Rows

    def some(self, which: Flags) -> "Cut":
        """Return some of the sessions."""
        rows = (self.first[which], self.last[which], self.until[which], self.end[which])
        flags = (self.is_session[which], self.is_over[which], self.by_event[which])
        return Cut(*rows, *flags, self.ends_at[which], self.late)


def cut_until(rule: Until, rows: InTime) -> Cut:
    """Cut rows where the condition of an event holds, and at silences; a key has no session for a time after one has ended."""
    time, ends_it, gap, closed_for = rows.time, rows.holds, rows.gap, micros(rule.closed_for)
    # If the events had arrived one by one, the watermark would have passed a silence only after the delay.
    longest = Timeout(gap.after + rows.delay, gap.in_) if rule.at_once else gap
    is_end = ends_it.copy()
    is_end[:-1] |= after_silence(rows.ordered, time, longest)[1:]
    is_end[-1] = True
    ends, late = np.flatnonzero(is_end), [np.array([], np.intp)]
    sessions = list[tuple[Rows, Rows, Micros, Flags]]()
    first, last = rows.ordered.starts, rows.ordered.lasts
    # As often as a key has sessions: another begins only after `closed_for`.
    while first.size:
        end = ends[np.searchsorted(ends, first)]
        ends_at = time[end] + np.where(ends_it[end], 0, micros(gap.after))
        ends_at = np.where(ends_it[end] | gap.in_event_time, ends_at, NEVER)
        is_over = (ends_at <= micros(rows.clock.watermark)) | (ends_it[end] & rule.at_once) | rows.timed_out
        sessions.append((first, np.where(is_over, end, last), ends_at, is_over))
        goes_on = is_over & (end < last)
        first, last = end[goes_on] + 1, last[goes_on]
        session, following = ranges(first, last)
        is_late = time[following] <= ends_at[goes_on][session] + closed_for
        late.append(following[is_late])
        # Late events come before the others.
        first = first + np.bincount(session[is_late], minlength=first.size)
        first, last = first[first <= last], last[first <= last]
    first, last, ends_at, is_over = (np.concatenate(arrays) for arrays in zip(*sessions, strict=True))
    is_session = np.ones(first.size, dtype=bool)
    return Cut(first, last, last, last, is_session, is_over, ends_it[last], ends_at, np.concatenate(late))


def cut_while(rule: While, rows: InTime) -> Cut:
    """Cut rows where the condition begins or ceases to hold for longer than a pause, and at silences."""
    time, pause = rows.time, micros(rule.pause)
    follows_silence = after_silence(rows.ordered, time, rows.gap)
    spans = spans_from(rows.ordered, _begins(time, rows.holds, follows_silence, pause))
    first, last = spans.ordered.starts, spans.ordered.lasts
    holds = rows.holds[first]
    following = np.minimum(np.arange(1, first.size + 1), first.size - 1)
    is_joined = np.append(~follows_silence[first[1:]], False)
    silent_at = np.full(first.size, NEVER)
    if rows.gap.in_event_time:
        silent_at = time[last] + micros(rows.gap.after)
    elif rows.timed_out:
        # Only the last of a key can fall silent: events followed the others.
        silent_at = np.where(spans.is_latest, time[last], NEVER)
    # What follows a session may be a pause of it, until that is too long. Other time ends when a session begins.
    may_pause, until = holds & is_joined, last + is_joined
    too_long_at = time[until] + pause
    ends_at = np.where(is_joined, time[until], silent_at)
    ends_at = np.where(may_pause, np.minimum(too_long_at, silent_at[following]), ends_at)
    is_over = (ends_at <= micros(rows.clock.watermark)) | rows.timed_out
    by_event = np.where(holds, may_pause & (too_long_at <= silent_at[following]), is_joined)
    goes_on = may_pause & ~is_over
    end = np.where(goes_on, last[following], last)
    cut = Cut(first, last, until, end, holds, is_over, by_event, ends_at, np.array([], np.intp))
    return cut.some(np.append(True, ~goes_on[:-1]))


def _begins(time: Micros, holds: Flags, follows_silence: Flags, pause: int) -> Flags:
    """Return for each row whether it begins a session, or time between two.

    A run is a sequence of rows that all hold or all do not. A run that does not, between two that do, is a pause of one session
    if it is shorter than `pause`, from its first event to the next that holds.
    """
    begins = follows_silence.copy()
    begins[1:] |= holds[1:] != holds[:-1]
    run = np.flatnonzero(begins)
    is_joined = ~follows_silence[run]
    is_followed = np.append(is_joined[1:], False)
    until_next = np.append(time[run[1:]] - time[run[:-1]], 0)
    is_pause = ~holds[run] & is_joined & is_followed & (until_next < pause)
    begins[run] = ~(is_pause | np.append(False, is_pause[:-1]))
    return begins
