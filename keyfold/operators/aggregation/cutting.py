"""Cut the rows of keys in order of time where a key was silent: into sessions, or into lifetimes of what is kept of it.

All that ends with a silence is cut here: `sessions`, `last_n`, `running`, and rows that expire. What else ends a session, an
event or a condition, is a rule of `session_ends`.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from keyfold.keyed.job.timeouts import Timeout
from keyfold.operators.aggregation.ranges import Rows
from keyfold.operators.ordering import Ordered
from keyfold.times import Micros, micros, to_micros

Flags = NDArray[np.bool_]

NEVER = 2**62
"""A time that is not known, in microseconds."""


def after_silence(ordered: Ordered, begins: Micros, longest: Timeout | None, ends: Micros | None = None) -> Flags:
    """Return for each row whether it begins a session: it is its key's first, or its key was silent for longer before it.

    Args:
        ordered: rows in order of key and `begins`.
        begins: the time of each row, or of the first event that it stands for.
        longest: the longest silence within a session; one in processing time, or none, cuts nothing.
        ends: the latest time of the rows of the key up to each; by default `begins`.
    """
    is_first = ordered.begins_key
    if longest is not None and longest.in_event_time:
        is_first[1:] |= begins[1:] - (begins if ends is None else ends)[:-1] > micros(longest.after)
    return is_first


@dataclass(frozen=True)
class Spans:
    """Rows of keys in order, cut into spans: sessions, lifetimes, or the rows that a row stands for.

    Attributes:
        ordered: the rows, grouped by span instead of key.
        key_number: for each span, the number of its key.
    """

    ordered: Ordered
    key_number: Rows

    @property
    def is_latest(self) -> Flags:
        """For each span, whether it is the last of its key."""
        return np.append(self.key_number[1:] != self.key_number[:-1], True)[: len(self.key_number)]

    @property
    def place(self) -> Rows:
        """For each span, its place among those of its key, from 0."""
        first = np.flatnonzero(np.diff(self.key_number, prepend=-1))
        return np.arange(len(self.key_number)) - first[self.key_number]


def spans_from(ordered: Ordered, begins: Flags) -> Spans:
    """Cut rows in order at those that begin a span, as the first row of each key does."""
    starts = np.flatnonzero(begins)
    return Spans(Ordered(ordered.events, starts, np.cumsum(begins) - 1), ordered.key_number[starts])


@dataclass(frozen=True)
class Lifetimes(Spans):
    """Events cut into lifetimes of what is kept of their keys.

    Attributes:
        goes_on: for each lifetime, whether it continues the key's state.
        last: for each lifetime, the time of its last event in microseconds; at least the state's, if it continues that.
    """

    goes_on: Flags
    last: Micros


def cut_lifetimes(ordered: Ordered, time: str, due: pl.Series, timeout: Timeout | None) -> Lifetimes:
    """Cut events where a key was silent for longer than a timeout.

    Args:
        ordered: events, ordered by key and time.
        time: the name of their time column.
        due: for each key, when its state expires; NULL if unknown.
        timeout: the timeout; unless it is in event time, every key has one lifetime.
    """
    times, starts, number = to_micros(ordered.events[time]), ordered.starts, ordered.key_number
    if timeout is None or not timeout.in_event_time:
        return Lifetimes(ordered, np.arange(len(starts)), np.ones(len(starts), dtype=bool), times[ordered.lasts])
    after = micros(timeout.after)
    # Before a key's first known event there is no silence.
    heard_at = due.to_physical().fill_null(after - NEVER).to_numpy() - after
    # An event out of order, before the key's newest event, does not end a silence.
    begins = after_silence(ordered, times, timeout, np.maximum(times, heard_at[number]))
    is_known = heard_at > -NEVER
    goes_on = ~(is_known & (times[starts] - np.where(is_known, heard_at, times[starts]) > after))
    spans = spans_from(ordered, begins)
    is_of_state = (spans.place == 0) & goes_on[spans.key_number]
    last = np.maximum(times[spans.ordered.lasts], np.where(is_of_state, heard_at[spans.key_number], -NEVER))
    return Lifetimes(spans.ordered, spans.key_number, is_of_state, last)
