"""Decide which rare events are news: one alarm per episode, and another one if it gets much worse.

An event is news if it is rarer than all of the last `LATE` events. But an anomaly usually consists of many events. So after
news, there is a rest in which only an event that is `MUCH_RARER` times as rare is news. The rest is the share `REST` of the
events known, and at most `LONGEST_REST` events. So an alarm does not repeat with every event of a ramp, and a small anomaly
does not silence a large one.
"""

from dataclasses import dataclass

LATE = 288
REST = 1 / 32
LONGEST_REST = 144
MUCH_RARER = 2.0

NEVER = -(2**61)
"""Number of the last news if there was none yet."""


@dataclass
class Episode:
    """The rarest of the recent events, and the last news. An event's number is the number of events known before it.

    Attributes:
        peaks, peak_numbers: the rarest of the recent events, then the rarest after it, and so on to the newest. This is a
            monotonic queue, whose first entry is the maximum of a sliding window.
        news, news_number: the rarity of the last news, and its number.
    """

    peaks: list[float]
    peak_numbers: list[int]
    news: float
    news_number: int

    def is_news(self, rarity: float, number: int) -> bool:
        """Return whether an event of this rarity is news now."""
        is_resting = number - self.news_number < min(REST * number, LONGEST_REST)
        if rarity <= 0.0 or (is_resting and rarity < MUCH_RARER * self.news):
            return False
        known = zip(self.peaks, self.peak_numbers, strict=True)
        return all(rarity > peak for peak, then in known if then >= number - LATE)

    def learn(self, rarity: float, number: int) -> float:
        """Learn an event; return its rarity if it is news, else 0."""
        is_news = self.is_news(rarity, number)
        if is_news:
            self.news, self.news_number = rarity, number
        kept = [
            (peak, then)
            for peak, then in zip(self.peaks, self.peak_numbers, strict=True)
            if peak > rarity and then >= number - LATE
        ]
        self.peaks, self.peak_numbers = [peak for peak, _ in kept] + [rarity], [then for _, then in kept] + [number]
        return rarity if is_news else 0.0
