"""Cut the rows of keys in order of time where a key was silent: into sessions, or into lifetimes of what is kept of it.

All that ends with a silence is cut here: `sessions`, `last_n`, `running`, and rows that expire. What else ends a session, an
event or a condition, is a rule of `session_ends`.
"""

from typing import NamedTuple

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


def ranges_from(is_first: Flags) -> tuple[Rows, Rows]:
    """Return the first and the last row of each range of rows."""
    first = np.flatnonzero(is_first)
    return first, np.append(first[1:] - 1, is_first.size - 1)[: first.size]


class Lifetimes(NamedTuple):
    """Events ordered by key and time, cut into lifetimes.

    Attributes:
        ordered: the events, grouped by lifetime instead of key.
        key_number: for each lifetime, the number of its key.
        goes_on: for each lifetime, whether it continues the key's state.
        last: for each lifetime, the time of its last event in microseconds; at least the state's, if it continues that.
    """

    ordered: Ordered
    key_number: NDArray[np.intp]
    goes_on: Flags
    last: Micros

    @property
    def is_latest(self) -> Flags:
        """For each lifetime, whether it is the last of its key."""
        return np.append(self.key_number[1:] != self.key_number[:-1], True)[: len(self.key_number)]


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
    first = np.flatnonzero(begins)
    lifetimes = Ordered(ordered.events, first, np.cumsum(begins) - 1)
    of_key = number[first]
    is_of_state = ordered.begins_key[first] & goes_on[of_key]
    last = np.maximum(times[lifetimes.lasts], np.where(is_of_state, heard_at[of_key], -NEVER))
    return Lifetimes(lifetimes, of_key, is_of_state, last)
