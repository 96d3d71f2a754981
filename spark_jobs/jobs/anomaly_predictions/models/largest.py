"""Keep the largest recent surprises, and compute return periods, as for floods.

The return period of the r-th largest surprise among n events is n / r events. This assumes no distribution and does not depend
on the unit (Gumbel, The return period of flood flows, 1941). It is also a conformal prediction: if the future is like the past,
the share of events with a return period of n events or more is at most 1 / n.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spark_jobs.jobs.anomaly_predictions.models.runs import Floats, Integers

HORIZON = 17_280
"""Number of events after which a surprise is forgotten at the earliest, since a metric may change for good."""
HEAD_START = 2_016
"""Number of events without a surprise that are assumed before the first event."""
REMEMBERED = 20
"""Number of surprises kept. Smaller ones, which occur more often within the horizon, have no return period."""

_AS_LARGE = 1.0 - 1e-9
"""Surprises with a ratio above this are equal but for rounding."""
_EVENTS_AT_ONCE = 256


@dataclass
class Largest:
    """The largest recent surprises in ascending order, and the numbers of their events.

    An event's number is the number of events of its metric known before it. Its horizon, `HORIZON` or more, is the number of
    events after which it is forgotten.
    """

    sizes: list[float]
    numbers: list[int]

    def __post_init__(self) -> None:
        self._oldest = min(self.numbers, default=None)

    def learn(self, sizes: Floats, numbers: Integers, horizons: Integers) -> Floats:
        """Return the return period of each surprise in events, 0 if it is not among the largest; learn it afterwards.

        Args:
            sizes: the surprises of one metric's events, in the order in which they are learned; 0 is no surprise.
            numbers, horizons: the numbers and horizons of the events.
        """
        periods = np.zeros(len(sizes))
        # Candidates are selected per part with vectorized code, since few events are among the largest.
        for start in range(0, len(sizes), _EVENTS_AT_ONCE):
            part = slice(start, start + _EVENTS_AT_ONCE)
            for row in self._candidates(sizes[part], int((numbers[part] - horizons[part]).max())).tolist():
                size = float(sizes[start + row])
                number, horizon = int(numbers[start + row]), int(horizons[start + row])
                periods[start + row] = self.period(size, number, horizon)
                self._insert(size, number, horizon)
        return periods

    def period(self, size: float, number: int, horizon: int) -> float:
        """Return the return period of a surprise of this size in events, given the number of events known. Does not learn."""
        is_old = self._oldest is not None and self._oldest <= number - horizon
        if size <= 0.0 or (self._is_full() and not is_old and size < self.sizes[0]):
            return 0.0
        first = bisect_left(self.sizes, size * _AS_LARGE)
        as_large = len(self.sizes) - first
        if is_old:
            as_large = sum(then > number - horizon for then in self.numbers[first:])
        return (min(number, horizon) + HEAD_START) / (as_large + 1)

    def _candidates(self, sizes: Floats, forgotten: int) -> Integers:
        """Return the rows that may be among the largest.

        The smallest surprise kept never decreases while none is forgotten, so smaller ones can be skipped.
        """
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
    """Split concatenated lists into one `Largest` per count."""
    ends = np.cumsum(counts).tolist()
    return [
        Largest(list(sizes[end - count : end]), list(numbers[end - count : end]))
        for end, count in zip(ends, counts, strict=True)
    ]
