"""How rare a surprise is: its return period, as floods have one. "Once in twelve days" means the same for every metric.

A surprise as large as the r-th largest in the time that is known comes back once in that time divided by r. No shape of
any distribution is assumed and the unit of the metric does not matter, so that one threshold suits all metrics; a metric
that is surprising all the time soon surprises nobody.

What is remembered of a metric is bounded: its largest surprises of the last `HORIZON`, once one by one and once those
that lasted (the smallest of `LASTING` in a row: an outage or a new level need not be the wildest value to be a rare
thing), and how rare the last day and a half was at its rarest, hour by hour. An event is only news if it is rarer than
all of that day and a half: one alarm an episode.
"""

from bisect import bisect_left
from dataclasses import dataclass

MICROSECONDS_A_DAY = 86_400 * 1_000_000
HORIZON = 60 * MICROSECONDS_A_DAY
HEAD_START = 3 * MICROSECONDS_A_DAY
"""Time that counts as known to be quiet before the first event, so that a first surprise has some weight."""
REFRACTORY = 36 * 3600 * 1_000_000
REMEMBERED = 48
LASTING = 5
LASTING_WEIGHT = 0.4
"""What the return period of a lasting surprise counts: it is asked the same question a second time."""

_AS_LARGE = 1.0 - 1e-9
"""Surprises closer than this are the same but for rounding."""
_HOUR = 3600 * 1_000_000


@dataclass
class Largest:
    """The largest surprises of the last `HORIZON`, from the smallest on, and when they came (microseconds)."""

    sizes: list[float]
    times: list[int]

    def __post_init__(self) -> None:
        self._oldest = min(self.times, default=None)

    def period(self, size: float, time: int, known: int) -> float:
        """Days after which a surprise of this size comes back, given the known time; 0 if it is none of the largest."""
        if size <= 0.0 or (len(self.sizes) >= REMEMBERED and size < self.sizes[0]):
            return 0.0
        first = bisect_left(self.sizes, size * _AS_LARGE)
        as_large = len(self.sizes) - first
        if self._oldest is not None and self._oldest <= time - HORIZON:
            as_large = sum(then > time - HORIZON for then in self.times[first:])
        return (min(known, HORIZON) + HEAD_START) / MICROSECONDS_A_DAY / (as_large + 1)

    def learn(self, size: float, time: int) -> None:
        """Remember a surprise, forget those that are too old, and the smallest if there are too many."""
        if self._oldest is not None and self._oldest <= time - HORIZON:
            kept = [then > time - HORIZON for then in self.times]
            self.sizes = [one for one, keep in zip(self.sizes, kept, strict=True) if keep]
            self.times = [one for one, keep in zip(self.times, kept, strict=True) if keep]
            self._oldest = min(self.times, default=None)
        if size <= 0.0 or (len(self.sizes) >= REMEMBERED and size < self.sizes[0]):
            return
        place = bisect_left(self.sizes, size)
        self.sizes.insert(place, size)
        self.times.insert(place, time)
        self._oldest = time if self._oldest is None else min(self._oldest, time)
        if len(self.sizes) > REMEMBERED:
            del self.sizes[0], self.times[0]


@dataclass
class History:
    """What is remembered of one metric's surprises.

    Attributes:
        single, lasting: the largest surprises of single events, and of `LASTING` events in a row.
        last: surprises of the last `LASTING - 1` events.
        peaks: how rare (in days) the rarest event of each of the last hours was, and when it came, in order of time.
    """

    single: Largest
    lasting: Largest
    last: list[float]
    peaks: list[tuple[float, int]]

    def rarity(self, size: float, time: int, known: int) -> float:
        """Return period of a surprise in days, be it a single or a lasting one; learns nothing."""
        single = self.single.period(size, time, known)
        return max(single, LASTING_WEIGHT * self.lasting.period(self._lasting(size), time, known))

    def is_news(self, rarity: float, time: int) -> bool:
        """Whether nothing of the time just before was as rare."""
        return all(rarity > peak for peak, then in self.peaks if time - REFRACTORY <= then < time)

    def learn(self, size: float, time: int, rarity: float) -> None:
        """Remember a surprise and how rare it was."""
        lasting = self._lasting(size)
        self.single.learn(size, time)
        self.lasting.learn(lasting, time)
        self.last = [*self.last, size][1 - LASTING :]
        if self.peaks and self.peaks[0][1] < time - REFRACTORY:
            self.peaks = [peak for peak in self.peaks if peak[1] >= time - REFRACTORY]
        if rarity > 0.0:
            if not self.peaks or self.peaks[-1][1] // _HOUR != time // _HOUR:
                self.peaks.append((rarity, time))
            elif rarity > self.peaks[-1][0]:
                self.peaks[-1] = (rarity, time)

    def _lasting(self, size: float) -> float:
        return min(size, *self.last) if len(self.last) == LASTING - 1 else 0.0
