"""The largest surprises of late, and how many events pass between two as large: their return period, as floods have one.

A surprise as large as the r-th largest of the events known comes back once in that many events divided by r. No
distribution is assumed and the unit does not matter (Gumbel, The return period of flood flows, 1941). By the same count
it is a conformal prediction: where the future is like the past, the share of events that are called so rare is at most
what is said.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spark_jobs.jobs.anomaly_predictions.models.runs import Floats, Integers

HORIZON = 17_280
"""Events after which a surprise is forgotten at the earliest: a metric may change for good."""
HEAD_START = 2_016
"""Events that count as known and quiet before the first one."""
REMEMBERED = 20
"""How many surprises: what comes more often than this within the horizon cannot be told apart."""

_AS_LARGE = 1.0 - 1e-9
"""Surprises closer than this are the same but for rounding."""
_EVENTS_AT_ONCE = 256


@dataclass
class Largest:
    """The largest surprises of late, from the smallest on, and the numbers of their events.

    An event's number is how many events of its metric were known before it, and its horizon, `HORIZON` or more, is how
    many events it takes until the event is forgotten.
    """

    sizes: list[float]
    numbers: list[int]

    def __post_init__(self) -> None:
        self._oldest = min(self.numbers, default=None)

    def learn(self, sizes: Floats, numbers: Integers, horizons: Integers) -> Floats:
        """The return period of each surprise in events, learning it then; 0 if it is none of the largest.

        Args:
            sizes: of the events of one metric, in the order in which they are learned; a size of 0 is no surprise.
            numbers, horizons: of the events.
        """
        periods = np.zeros(len(sizes))
        for start in range(0, len(sizes), _EVENTS_AT_ONCE):
            part = slice(start, start + _EVENTS_AT_ONCE)
            for row in self._candidates(sizes[part], int((numbers[part] - horizons[part]).max())).tolist():
                size = float(sizes[start + row])
                number, horizon = int(numbers[start + row]), int(horizons[start + row])
                periods[start + row] = self.period(size, number, horizon)
                self._insert(size, number, horizon)
        return periods

    def period(self, size: float, number: int, horizon: int) -> float:
        """Events from one surprise of this size to the next, given the number of events known; learns nothing."""
        is_old = self._oldest is not None and self._oldest <= number - horizon
        if size <= 0.0 or (self._is_full() and not is_old and size < self.sizes[0]):
            return 0.0
        first = bisect_left(self.sizes, size * _AS_LARGE)
        as_large = len(self.sizes) - first
        if is_old:
            as_large = sum(then > number - horizon for then in self.numbers[first:])
        return (min(number, horizon) + HEAD_START) / (as_large + 1)

    def _candidates(self, sizes: Floats, forgotten: int) -> Integers:
        """Rows that may be among the largest: the smallest remembered only grows as long as none is forgotten."""
        is_steady = self._is_full() and self._oldest is not None and self._oldest > forgotten
        return np.flatnonzero((sizes > 0.0) & (sizes >= (self.sizes[0] if is_steady else 0.0)))

    def _insert(self, size: float, number: int, horizon: int) -> None:
        if self._oldest is not None and self._oldest <= number - horizon:
            kept = [then > number - horizon for then in self.numbers]
            self.sizes = [one for one, keep in zip(self.sizes, kept, strict=True) if keep]
            self.numbers = [one for one, keep in zip(self.numbers, kept, strict=True) if keep]
        if self._is_full():
            if size < self.sizes[0]:
                return
            del self.sizes[0], self.numbers[0]
        place = bisect_left(self.sizes, size)
        self.sizes.insert(place, size)
        self.numbers.insert(place, number)
        self._oldest = min(self.numbers)

    def _is_full(self) -> bool:
        return len(self.sizes) >= REMEMBERED


def unpacked(sizes: Sequence[float], numbers: Sequence[int], counts: Sequence[int]) -> list[Largest]:
    """Several of them, of lists that lie one behind the other."""
    ends = np.cumsum(counts).tolist()
    return [
        Largest(list(sizes[end - count : end]), list(numbers[end - count : end]))
        for end, count in zip(ends, counts, strict=True)
    ]
