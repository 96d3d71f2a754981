"""Keep the largest surprises of a metric by view and in total, and compute how rare an event is."""

from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from spark_jobs.jobs.anomaly_predictions.models.episodes import NEVER, Episode
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
`episodes`."""
MEMORIES = len(VIEWS) + 4


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
    episode: Episode

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
