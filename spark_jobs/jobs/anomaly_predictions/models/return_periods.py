"""Rank surprises among the largest recent ones by their return period, as for floods, and decide which event is news.

The return period of the r-th largest surprise among n events is n / r events. This assumes no distribution and does not depend
on the unit (Gumbel, The return period of flood flows, 1941). It is also a conformal prediction: if the future is like the past,
the share of events with a return period of n events or more is at most 1 / n.

The surprises of each detector are ranked, and then the largest return period of an event, since the maximum of several
detectors is large more often than each of them.

An event is news if it is rarer than all of the last `LATE` events. But an anomaly usually consists of many events. So after
news, there is a rest in which only an event that is `MUCH_RARER` times as rare is news. The rest is the share `REST` of the
events known, and at most `LONGEST_REST` events. So an alarm does not repeat with every event of a ramp, and a small anomaly
does not silence a large one.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np

from spark_jobs.jobs.anomaly_predictions.models.daily_bands import VIEWS
from spark_jobs.jobs.anomaly_predictions.models.protocol import Floats, Integers

HORIZON = 17_280
"""Number of events after which a surprise is forgotten at the earliest, since a metric may change for good."""
HEAD_START = 2_016
"""Number of events without a surprise that are assumed before the first event."""
REMEMBERED = 20
"""Number of surprises kept. Smaller ones, which occur more often within the horizon, have no return period."""
_AS_LARGE = 1.0 - 1e-9
"""Surprises with a ratio above this are equal but for rounding."""

LATE = 288
REST = 1 / 32
LONGEST_REST = 144
MUCH_RARER = 2.0
_NEVER = -(2**61)
"""Number of the last news if there was none yet."""

_RANKED = (*VIEWS, "level", "all")
UNTRAINED = {
    **{f"{name}_{part}": [] for name in _RANKED for part in ("size", "number")},
    "peak": [],
    "peak_number": [],
    "news": 0.0,
    "news_number": _NEVER,
}
"""The columns of the model: the largest surprises of each detector and the numbers of their events; the same of all together; the
rarest of the last events, then the rarest after it, and so on to the newest; the last news. An event's number is the number of events of its metric known before it."""


class Largest:
    """The largest recent surprises in ascending order, and the numbers of their events."""

    def __init__(self, sizes: Sequence[float], numbers: Sequence[int]) -> None:
        self.sizes, self.numbers = list(sizes), list(numbers)
        self._oldest = min(self.numbers, default=0)

    def periods(self, sizes: Floats, numbers: Integers, horizons: Integers, *, learns: bool) -> Floats:
        """Return the return period of each surprise in events, 0 if it is not among the largest.

        Args:
            sizes: the surprises of one metric's events; 0 is no surprise.
            numbers, horizons: the events' numbers, and after how many events each forgets a surprise; `HORIZON` or more.
            learns: whether each surprise is learned before the next one is ranked.
        """
        periods = np.zeros(len(sizes))
        rows = np.flatnonzero(sizes > 0.0)
        ranked = zip(rows.tolist(), sizes[rows].tolist(), numbers[rows].tolist(), horizons[rows].tolist(), strict=True)
        for row, size, number, horizon in ranked:
            if self._oldest <= number - horizon:
                self._forget(number - horizon)
            if len(self.sizes) == REMEMBERED and size < self.sizes[0]:
                continue
            as_large = len(self.sizes) - bisect_left(self.sizes, size * _AS_LARGE)
            periods[row] = (min(number, horizon) + HEAD_START) / (as_large + 1)
            if learns:
                self._insert(size, number)
        return periods

    def _forget(self, until: int) -> None:
        kept = [(size, number) for size, number in zip(self.sizes, self.numbers, strict=True) if number > until]
        self.sizes, self.numbers = [size for size, _ in kept], [number for _, number in kept]
        self._oldest = min(self.numbers, default=until + 1)

    def _insert(self, size: float, number: int) -> None:
        if len(self.sizes) == REMEMBERED:
            del self.sizes[0], self.numbers[0]
        place = bisect_left(self.sizes, size)
        self.sizes.insert(place, size)
        self.numbers.insert(place, number)
        self._oldest = min(self.numbers)


class ReturnPeriods:
    """The largest surprises of one metric, and its last news; `model` has the columns of `UNTRAINED`."""

    def __init__(self, model: dict[str, Any]) -> None:
        self._ranked = [Largest(model[f"{name}_size"], model[f"{name}_number"]) for name in _RANKED]
        self._peaks = list(zip(model["peak"], model["peak_number"], strict=True))
        self._news, self._news_number = model["news"], model["news_number"]

    def columns(self) -> dict[str, Any]:
        """Return the columns of the model."""
        lists = (part for largest in self._ranked for part in (largest.sizes, largest.numbers))
        peaks = ([rarity for rarity, _ in self._peaks], [number for _, number in self._peaks])
        return dict(zip(UNTRAINED, (*lists, *peaks, self._news, self._news_number), strict=True))

    def rarities(self, surprises: Floats, numbers: Integers, horizons: Integers, *, learns: bool) -> Floats:
        """Compute the return period of each event in events, 0 if it is not news; if `learns`, learn each before the next.

        `surprises` has one row per view and one for the level; `numbers` and `horizons` are as in `Largest`.
        """
        *detectors, of_all = self._ranked
        each = [of.periods(row, numbers, horizons, learns=learns) for of, row in zip(detectors, surprises, strict=True)]
        rarities = of_all.periods(np.maximum.reduce(each), numbers, horizons, learns=learns)
        for row in np.flatnonzero(rarities).tolist():
            rarity, number = rarities[row].item(), numbers[row].item()
            is_resting = number - self._news_number < min(REST * number, LONGEST_REST)
            peaks = [(peak, then) for peak, then in self._peaks if peak >= rarity and then >= number - LATE]
            is_news = not (peaks or (is_resting and rarity < MUCH_RARER * self._news))
            if learns:
                self._peaks = [*peaks, (rarity, number)]
            if learns and is_news:
                self._news, self._news_number = rarity, number
            rarities[row] = rarity if is_news else 0.0
        return rarities
