"""What of a stream of rare events is news: one alarm an episode, and a second one when it gets worse.

An event is news if it is rarer than all of the last four days. An anomaly seldom comes as one event, though: for half a
day after some news only what is twice as rare is news again. So neither does an alarm repeat itself with every event of a
ramp, nor does a small one before a large one silence it.
"""

from dataclasses import dataclass

HOUR = 3600 * 1_000_000
REMEMBERED_FOR = 96 * HOUR
QUIET_FOR = 12 * HOUR
MUCH_RARER = 2.0

LONG_AGO = -(2**61)
"""Time of the last news before there was any."""


@dataclass
class Episode:
    """What is remembered of the rare events of late.

    Attributes:
        peaks, peak_times: the rarest event of the last days, then the rarest one after it, and so on to the newest.
        news, news_time: how rare the last news was, and when it came.
    """

    peaks: list[float]
    peak_times: list[int]
    news: float
    news_time: int

    def is_news(self, rarity: float, time: int) -> bool:
        """Whether an event so rare is news now."""
        if rarity <= 0.0 or (time - self.news_time < QUIET_FOR and rarity < MUCH_RARER * self.news):
            return False
        known = zip(self.peaks, self.peak_times, strict=True)
        return all(rarity > peak for peak, then in known if then >= time - REMEMBERED_FOR)

    def learn(self, rarity: float, time: int) -> float:
        """Remember an event; gives how rare it is if it is news, else 0."""
        is_news = self.is_news(rarity, time)
        if is_news:
            self.news, self.news_time = rarity, time
        kept = [
            (peak, then)
            for peak, then in zip(self.peaks, self.peak_times, strict=True)
            if peak > rarity and then >= time - REMEMBERED_FOR
        ]
        self.peaks, self.peak_times = [peak for peak, _ in kept] + [rarity], [then for _, then in kept] + [time]
        return rarity if is_news else 0.0
