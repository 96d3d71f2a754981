"""What a model remembers of a metric's surprises: how rare they were in each view, and in the rarest of all views."""

from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from spark_jobs.jobs.anomaly_predictions.models.episodes import Episode
from spark_jobs.jobs.anomaly_predictions.models.largest import Largest, unpacked
from spark_jobs.jobs.anomaly_predictions.models.runs import Floats, Integers

HISTORY = {
    "size": pl.List(pl.Float64),
    "size_time": pl.List(pl.Int64),
    "size_count": pl.List(pl.Int64),
    "peak": pl.List(pl.Float64),
    "peak_time": pl.List(pl.Int64),
    "news": pl.Float64(),
    "news_time": pl.Int64(),
}
"""The columns of a history: the largest surprises of each view and of all together, one behind the other, and how many
of each; what `episodes` remembers."""


class History(NamedTuple):
    """What a model remembers of surprises: of each view, of the rarest view, and of the episode."""

    of_views: list[Largest]
    of_rarest: Largest
    episode: Episode

    @staticmethod
    def of(model: dict[str, Any]) -> "History":
        *of_views, of_rarest = unpacked(model["size"], model["size_time"], model["size_count"])
        return History(
            of_views, of_rarest, Episode(model["peak"], model["peak_time"], model["news"], model["news_time"])
        )

    def rarity(self, sizes: list[float], time: int, began: int, *, ranked_again: bool) -> float:
        """How rare an event is in days if it is news, else 0; learns nothing."""
        rarest = max(view.period(size, time, began) for view, size in zip(self.of_views, sizes, strict=True))
        rarity = self.of_rarest.period(rarest, time, began) if ranked_again else rarest
        return rarity if self.episode.is_news(rarity, time) else 0.0

    def learn(self, sizes: Floats, times: Integers, began: int, *, ranked_again: bool) -> Floats:
        """How rare each event is in days if it is news, else 0, each before it is learned."""
        periods = (view.learn(row, times, began) for view, row in zip(self.of_views, sizes, strict=True))
        rarest = reduce(np.maximum, periods)
        rarities = self.of_rarest.learn(rarest, times, began) if ranked_again else rarest
        news = np.zeros(len(rarities))
        for row in np.flatnonzero(rarities > 0.0).tolist():
            news[row] = self.episode.learn(float(rarities[row]), int(times[row]))
        return news

    def columns(self) -> dict[str, Any]:
        """The columns of it all."""
        memories = [*self.of_views, self.of_rarest]
        return {
            "size": [size for memory in memories for size in memory.sizes],
            "size_time": [time for memory in memories for time in memory.times],
            "size_count": [len(memory.sizes) for memory in memories],
            "peak": self.episode.peaks,
            "peak_time": self.episode.peak_times,
            "news": self.episode.news,
            "news_time": self.episode.news_time,
        }
