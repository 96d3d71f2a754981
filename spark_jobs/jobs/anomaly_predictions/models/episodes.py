"""What of a stream of rare events is news: one alarm an episode, and a second one when it gets worse.

An event is news if it is rarer than all of the last `LATE` events. An anomaly seldom comes as one event, though: after
some news only what is twice as rare is news again, for `REST` of the events known. What is "again" and what "still"
depends on how long one has watched. So neither does an alarm repeat itself with every event of a ramp, nor does a small
one before a large one silence it.
"""

from dataclasses import dataclass

LATE = 288
REST = 1 / 32
LONGEST_REST = 144
MUCH_RARER = 2.0

NEVER = -(2**61)
"""Number of the last news before there was any."""


@dataclass
class Episode:
    """What is remembered of the rare events of late; an event's number is how many events were known before it.

    Attributes:
        peaks, peak_numbers: the rarest of the last events, then the rarest one after it, and so on to the newest.
        news, news_number: how rare the last news was, and its number.
    """

    peaks: list[float]
    peak_numbers: list[int]
    news: float
    news_number: int

    def is_news(self, rarity: float, number: int) -> bool:
        """Whether an event so rare is news now."""
        is_resting = number - self.news_number < min(REST * number, LONGEST_REST)
        if rarity <= 0.0 or (is_resting and rarity < MUCH_RARER * self.news):
            return False
        known = zip(self.peaks, self.peak_numbers, strict=True)
        return all(rarity > peak for peak, then in known if then >= number - LATE)

    def learn(self, rarity: float, number: int) -> float:
        """Remember an event; gives how rare it is if it is news, else 0."""
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
