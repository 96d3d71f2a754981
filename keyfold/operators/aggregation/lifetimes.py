"""Cut the events of keys that expire into lifetimes, from one silence of a key to the next."""

from datetime import timedelta
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from keyfold.errors import Misconfigured
from keyfold.keyed.job.timeouts import Timeout
from keyfold.operators.ordering import Ordered
from keyfold.times import as_duration, micros, to_micros

_LONG_AGO = -(2**62)


def expiry_of(job: str, expires: timedelta | str | None) -> Timeout | None:
    """Return the timeout in event time of a key that expires; None for never.

    Raises:
        Misconfigured: it is not positive.
    """
    after = None if expires is None else as_duration(f"job {job}: expires", expires)
    if after is not None and after <= timedelta(0):
        raise Misconfigured(f"job {job}: expires is {after}; it must be longer than nothing, or None for ever")
    return None if after is None else Timeout(after)


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
    goes_on: NDArray[np.bool_]
    last: NDArray[np.int64]

    @property
    def is_latest(self) -> NDArray[np.bool_]:
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
    known = due.to_physical().fill_null(_LONG_AGO).to_numpy()
    kept = np.where(known == _LONG_AGO, _LONG_AGO, known - after)
    before = np.append(_LONG_AGO, times[:-1])[: len(times)]
    # Before a key's first known event there is no silence.
    before[starts] = np.where(kept == _LONG_AGO, times[starts], kept)
    # An event out of order, before the key's newest event, does not end a silence.
    is_silence = times - np.maximum(before, kept[number]) > after
    begins = np.flatnonzero(ordered.begins_key | is_silence)
    lifetimes = Ordered(ordered.events, begins, np.cumsum(ordered.begins_key | is_silence) - 1)
    of_key, goes_on = number[begins], ordered.begins_key[begins] & ~is_silence[begins]
    last = np.maximum(times[lifetimes.lasts], np.where(goes_on, kept[of_key], _LONG_AGO))
    return Lifetimes(lifetimes, of_key, goes_on, last)
