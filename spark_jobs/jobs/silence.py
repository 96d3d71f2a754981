"""End keys by silence: the parameters of jobs that do, and the lifetimes of a key between its silences."""

from typing import NamedTuple, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field, model_validator

from keyfold.keyed.job import Duration, EventTimeParameters, TimeKind, Timeout
from keyfold.operators.ordering import Ordered
from keyfold.times import micros, to_micros

_LONG_AGO = -(2**62)


class SilentParameters(EventTimeParameters):
    """Parameters of a job whose keys end by silence."""

    timeout_in: TimeKind = Field(
        "event_time",
        description="event_time: a silence is measured between two events of a key. processing_time: from the run that brought "
        "a key's last event, whatever its event time",
    )


class ExpiringParameters(SilentParameters):
    """Parameters of a job whose keys never close by themselves, and may expire."""

    expire_after: Duration | None = Field(
        None,
        description="Silence after which a key's state is dropped, so that its next event starts again. None: keys do not "
        "expire",
    )

    @model_validator(mode="after")
    def _timeout_is_of_the_expiry(self) -> Self:
        if self.expire_after is None and self.timeout_in != "event_time":
            raise ValueError(f"timeout_in={self.timeout_in} requires expire_after; give it a duration such as `30d`")
        return self

    @property
    def expiry(self) -> Timeout | None:
        """The timeout that ends a key, or None."""
        return None if self.expire_after is None else Timeout(self.expire_after, self.timeout_in)


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
