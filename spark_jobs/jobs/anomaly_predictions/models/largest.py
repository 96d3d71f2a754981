"""The largest surprises of late, and how many days pass between two as large: their return period, as floods have one.

A surprise as large as the r-th largest in the time that is known comes back once in that time divided by r. No
distribution is assumed and the unit does not matter: what comes once a week comes once a week, whatever the metric
(Gumbel, The return period of flood flows, 1941). By the same count it is a conformal prediction: where the future is like
the past, the share of events that are called so rare is at most what is said.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spark_jobs.jobs.anomaly_predictions.models.runs import Floats, Integers

MICROSECONDS_A_DAY = 86_400 * 1_000_000
HORIZON = 60 * MICROSECONDS_A_DAY
"""What is older is forgotten: a metric may change for good."""
HEAD_START = 7 * MICROSECONDS_A_DAY
"""Time that counts as known to be quiet before the first event: the week that values are held against."""
REMEMBERED = 32
"""How many: what comes more than about three times a week, once there were sixty days, cannot be told apart."""

_AS_LARGE = 1.0 - 1e-9
"""Surprises closer than this are the same but for rounding."""
_EVENTS_AT_ONCE = 256


@dataclass
class Largest:
    """The largest surprises of the last `HORIZON`, from the smallest on, and when they came (microseconds)."""

    sizes: list[float]
    times: list[int]

    def __post_init__(self) -> None:
        self._oldest = min(self.times, default=None)

    def learn(self, sizes: Floats, times: Integers, began: int) -> Floats:
        """The return period of each surprise in days, learning it then; 0 if it is none of the largest.

        Args:
            sizes, times: of the events of one metric, in order of time; a size of 0 is no surprise.
            began: time of the metric's first event.
        """
        periods = np.zeros(len(sizes))
        for start in range(0, len(sizes), _EVENTS_AT_ONCE):
            part = slice(start, start + _EVENTS_AT_ONCE)
            for row in self._candidates(sizes[part], int(times[part][-1])).tolist():
                size, time = float(sizes[start + row]), int(times[start + row])
                periods[start + row] = self.period(size, time, began)
                self._insert(size, time)
        return periods

    def period(self, size: float, time: int, began: int) -> float:
        """Days from one surprise of this size to the next, given the time since the metric began; learns nothing."""
        is_old = self._oldest is not None and self._oldest <= time - HORIZON
        if size <= 0.0 or (self._is_full() and not is_old and size < self.sizes[0]):
            return 0.0
        first = bisect_left(self.sizes, size * _AS_LARGE)
        as_large = len(self.sizes) - first
        if is_old:
            as_large = sum(then > time - HORIZON for then in self.times[first:])
        return (min(max(time - began, 0), HORIZON) + HEAD_START) / MICROSECONDS_A_DAY / (as_large + 1)

    def _candidates(self, sizes: Floats, until: int) -> Integers:
        """Rows that may be among the largest: the smallest that is remembered only grows as long as none is too old."""
        is_steady = self._is_full() and self._oldest is not None and self._oldest > until - HORIZON
        return np.flatnonzero((sizes > 0.0) & (sizes >= (self.sizes[0] if is_steady else 0.0)))

    def _insert(self, size: float, time: int) -> None:
        if self._oldest is not None and self._oldest <= time - HORIZON:
            kept = [then > time - HORIZON for then in self.times]
            self.sizes = [one for one, keep in zip(self.sizes, kept, strict=True) if keep]
            self.times = [one for one, keep in zip(self.times, kept, strict=True) if keep]
        if self._is_full():
            if size < self.sizes[0]:
                return
            del self.sizes[0], self.times[0]
        place = bisect_left(self.sizes, size)
        self.sizes.insert(place, size)
        self.times.insert(place, time)
        self._oldest = min(self.times)

    def _is_full(self) -> bool:
        return len(self.sizes) >= REMEMBERED


def unpacked(sizes: Sequence[float], times: Sequence[int], counts: Sequence[int]) -> list[Largest]:
    """Several of them, of lists that lie one behind the other."""
    ends = np.cumsum(counts).tolist()
    return [
        Largest(list(sizes[end - count : end]), list(times[end - count : end]))
        for end, count in zip(ends, counts, strict=True)
    ]
