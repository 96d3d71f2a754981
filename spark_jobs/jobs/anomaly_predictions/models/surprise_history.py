"""Keep the largest surprises of a metric by view and in total, compute how rare an event is, and decide which event is news.

An event is news if it is rarer than all of the last `LATE` events. But an anomaly usually consists of many events. So after
news, there is a rest in which only an event that is `MUCH_RARER` times as rare is news. The rest is the share `REST` of the
events known, and at most `LONGEST_REST` events. So an alarm does not repeat with every event of a ramp, and a small anomaly
does not silence a large one.
"""

from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from spark_jobs.jobs.anomaly_predictions.models.largest import Largest, unpacked
from spark_jobs.jobs.anomaly_predictions.models.runs import Floats, Integers
from spark_jobs.jobs.anomaly_predictions.models.views import VIEWS

COLUMNS = {
    "size": pl.List(pl.Float64),
    "size_number": pl.List(pl.Int64),
    "size_count": pl.List(pl.Int64),
    "peak": pl.List(pl.Float64),
    "peak_number": pl.List(pl.Int64),
    "news": pl.Float64(),
    "news_number": pl.Int64(),
}
"""Columns of the model: the largest surprises of all memories in one list, the number of each memory's, and the state of
`Episode`."""
MEMORIES = len(VIEWS) + 4

LATE = 288
REST = 1 / 32
LONGEST_REST = 144
MUCH_RARER = 2.0

NEVER = -(2**61)
"""Number of the last news if there was none yet."""


class History(NamedTuple):
    """The largest surprises of a model, and its last episode.

    Attributes:
        of_views: the largest of each view in `views`.
        of_strays: the largest return periods over all views.
        of_levels: the largest of rare levels.
        of_stays: the largest of unchanged values.
        of_all: the largest return periods of `of_strays`, `of_levels` and `of_stays`.
        episode: the last episode of alarms.
    """

    of_views: list[Largest]
    of_strays: Largest
    of_levels: Largest
    of_stays: Largest
    of_all: Largest
    episode: "Episode"

    @staticmethod
    def of(model: dict[str, Any]) -> "History":
        *of_views, of_strays, of_levels, of_stays, of_all = unpacked(
            model["size"], model["size_number"], model["size_count"]
        )
        episode = Episode(model["peak"], model["peak_number"], model["news"], model["news_number"])
        return History(of_views, of_strays, of_levels, of_stays, of_all, episode)

    def rarity(self, surprises: list[float], number: int, horizon: int) -> float:
        """Compute the return period of an event in events; 0 if it is not news. Does not learn.

        Args:
            surprises: the surprises of one event: by each view, of its level, of its stay.
            number, horizon: as in `largest.Largest`.
        """
        *strays, level, stay = surprises
        periods = (view.period(size, number, horizon) for view, size in zip(self.of_views, strays, strict=True))
        rarest = max(
            self.of_strays.period(max(periods), number, horizon),
            self.of_levels.period(level, number, horizon),
            self.of_stays.period(stay, number, horizon),
        )
        rarity = self.of_all.period(rarest, number, horizon)
        return rarity if self.episode.is_news(rarity, number) else 0.0

    def learn(self, surprises: Floats, numbers: Integers, horizons: Integers) -> Floats:
        """Compute the same for each event, one column per event, and learn it afterwards."""
        *strays, levels, stays = surprises
        periods = (view.learn(row, numbers, horizons) for view, row in zip(self.of_views, strays, strict=True))
        rarest = reduce(
            np.maximum,
            (
                self.of_strays.learn(reduce(np.maximum, periods), numbers, horizons),
                self.of_levels.learn(levels, numbers, horizons),
                self.of_stays.learn(stays, numbers, horizons),
            ),
        )
        rarities = self.of_all.learn(rarest, numbers, horizons)
        news = np.zeros(len(rarities))
        for row in np.flatnonzero(rarities > 0.0).tolist():
            news[row] = self.episode.learn(rarities[row].item(), numbers[row].item())
        return news

    def columns(self) -> dict[str, Any]:
        """Return the history as columns of the model."""
        memories = [*self.of_views, self.of_strays, self.of_levels, self.of_stays, self.of_all]
        return {
            "size": [size for memory in memories for size in memory.sizes],
            "size_number": [number for memory in memories for number in memory.numbers],
            "size_count": [len(memory.sizes) for memory in memories],
            "peak": self.episode.peaks,
            "peak_number": self.episode.peak_numbers,
            "news": self.episode.news,
            "news_number": self.episode.news_number,
        }


def initial(models: int) -> list[pl.Series]:
    """Build the columns of this number of untrained models."""
    nothing = {"size_count": [0] * MEMORIES, "news": 0.0, "news_number": NEVER}
    return [pl.Series(name, [nothing.get(name, [])] * models, dtype=kind) for name, kind in COLUMNS.items()]


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
