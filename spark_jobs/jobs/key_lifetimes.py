"""Lives of a key: where its events stop for longer than a timeout of event time, the next one begins it anew."""

from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from keyfold.keyed.job import Timeout
from keyfold.operators.ordering import Ordered
from keyfold.times import micros, to_micros

_LONG_AGO = -(2**62)


class Lives(NamedTuple):
    """Events that lie key by key in order of time, cut into lives.

    Attributes:
        ordered: the events, a life in place of a key.
        key_number: of each life, which of the keys it is of.
        goes_on: of each life, whether it goes on from what is kept of its key.
        last: of each life, when its last event was, in microseconds; of one that goes on no earlier than what is kept.
    """

    ordered: Ordered
    key_number: NDArray[np.intp]
    goes_on: NDArray[np.bool_]
    last: NDArray[np.int64]

    @property
    def is_latest(self) -> NDArray[np.bool_]:
        """Of each life, whether it is the last of its key."""
        return np.append(self.key_number[1:] != self.key_number[:-1], True)[: len(self.key_number)]


def cut_lives(ordered: Ordered, time: str, due: pl.Series, timeout: Timeout | None) -> Lives:
    """Cut events where a key was silent for longer than a timeout.

    Args:
        ordered: events, key by key in order of time.
        time: their column of times.
        due: of each key, when it is due by what is kept of it; NULL where nothing tells.
        timeout: in event time; of another, or of none, every key has one life.
    """
    times, starts, number = to_micros(ordered.events[time]), ordered.starts, ordered.key_number
    if timeout is None or not timeout.in_event_time:
        return Lives(ordered, np.arange(len(starts)), np.ones(len(starts), dtype=bool), times[ordered.lasts])
    after = micros(timeout.after)
    known = due.to_physical().fill_null(_LONG_AGO).to_numpy()
    kept = np.where(known == _LONG_AGO, _LONG_AGO, known - after)
    before = np.append(_LONG_AGO, times[:-1])[: len(times)]
    # Of what nothing is known there was no silence.
    before[starts] = np.where(kept == _LONG_AGO, times[starts], kept)
    # What comes out of order breaks no silence that lies behind the key's newest event.
    is_silence = times - np.maximum(before, kept[number]) > after
    begins = np.flatnonzero(ordered.begins_key | is_silence)
    lives = Ordered(ordered.events, begins, np.cumsum(ordered.begins_key | is_silence) - 1)
    of_key, goes_on = number[begins], ordered.begins_key[begins] & ~is_silence[begins]
    last = np.maximum(times[lives.lasts], np.where(goes_on, kept[of_key], _LONG_AGO))
    return Lives(lives, of_key, goes_on, last)
