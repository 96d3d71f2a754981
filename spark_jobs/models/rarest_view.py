"""The rarest view: how many days pass until any of five weak views of a metric sees the like again. For alarms.

1. **Views.** How far each event strays from what is usual at this time of day, in five ways (`views`).
2. **Rarity.** How many days pass between two strays as large in that view (`largest`). The rarest view counts. Five
   chances to be rare are more than one, so the rarest of five is ranked once more among its own past: what was
   promised of one view then holds for all together.
3. **News.** One alarm an episode (`episodes`).

The score is `days / (days + 7)`: above one half is what comes less than once a week. There is no score until there was
a day to compare with. `docs/anomaly-detection.md` has what led to this, and what each part is good for.
"""

from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from spark_jobs.models.daily_bands import EDGES, cell_columns
from spark_jobs.models.episodes import LONG_AGO, Episode
from spark_jobs.models.largest import Largest, unpacked
from spark_jobs.models.rounds import predict_by_rounds
from spark_jobs.models.runs import Floats, Integers, KeyRuns, key_runs
from spark_jobs.models.scoring import WIDEST
from spark_jobs.models.views import LASTING, VIEWS, Sight, Trail, look, look_frozen

HALF_AT = 7.0
"""Days between two events as rare at which the score is one half."""

_HISTORY = {
    "size": pl.List(pl.Float64),
    "size_time": pl.List(pl.Int64),
    "size_count": pl.List(pl.Int64),
    "peak": pl.List(pl.Float64),
    "peak_time": pl.List(pl.Int64),
    "news": pl.Float64(),
    "news_time": pl.Int64(),
}


@dataclass(frozen=True)
class RarestView:
    """The model `rarest_view`.

    Attributes:
        views: those of `views.VIEWS` that it looks with; all, but for telling what each is good for.
        ranked_again: whether the rarest view is ranked among its own past.
    """

    views: tuple[str, ...] = VIEWS
    ranked_again: bool = True
    name = "rarest_view"
    version = 1
    threshold = 0.5
    half_at = HALF_AT
    state = pa.schema(
        [
            pa.field("began", pa.int64()),
            pa.field("previous", pa.float64()),
            pa.field("cell", pa.list_(pa.int32())),
            *(pa.field(name, pa.list_(pa.float64())) for name in EDGES),
            pa.field("last_strays", pa.list_(pa.float64())),
            pa.field("last_change_strays", pa.list_(pa.float64())),
            pa.field("size", pa.list_(pa.float64())),
            pa.field("size_time", pa.list_(pa.int64())),
            pa.field("size_count", pa.list_(pa.int64())),
            pa.field("peak", pa.list_(pa.float64())),
            pa.field("peak_time", pa.list_(pa.int64())),
            pa.field("news", pa.float64()),
            pa.field("news_time", pa.int64()),
        ]
    )
    """Time of the first event (microseconds), last value; the last week's cells (`daily_bands`); the last strays
    (`views.Trail`); the largest surprises of each view and of all together, one behind the other, and how many of each
    (`largest`); what `episodes` remembers."""

    def initial(self, keys: pl.Series) -> pl.DataFrame:
        memories = len(self.views) + 1
        no_strays, no_sizes = [0.0] * (LASTING - 1), [0] * memories
        return pl.DataFrame({"key": keys}).with_columns(
            pl.lit(None, pl.Int64).alias("began"),
            pl.lit(None, pl.Float64).alias("previous"),
            pl.lit([], pl.List(pl.Int32)).alias("cell"),
            *(pl.lit([], pl.List(pl.Float64)).alias(name) for name in EDGES),
            pl.lit(no_strays, pl.List(pl.Float64)).alias("last_strays"),
            pl.lit(no_strays, pl.List(pl.Float64)).alias("last_change_strays"),
            pl.lit([], pl.List(pl.Float64)).alias("size"),
            pl.lit([], pl.List(pl.Int64)).alias("size_time"),
            pl.lit(no_sizes, pl.List(pl.Int64)).alias("size_count"),
            pl.lit([], pl.List(pl.Float64)).alias("peak"),
            pl.lit([], pl.List(pl.Int64)).alias("peak_time"),
            pl.lit(0.0).alias("news"),
            pl.lit(LONG_AGO, pl.Int64).alias("news_time"),
        )

    def learn(self, models: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
        return self.predict_then_learn(models, events)[1]

    def predict(self, models: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
        seen = _Seen.of(models, events)
        sight = look_frozen(models, seen.runs, seen.times, seen.values, _trail(models, seen.runs))
        surprises = self._chosen(sight)
        rarities = np.zeros(len(seen.values))
        for run, rows in seen.surprised(surprises):
            history = _History.of(models.row(int(seen.runs.model[run]), named=True))
            for row in rows.tolist():
                size, time = surprises[:, row].tolist(), int(seen.times[row])
                rarities[row] = history.rarity(size, time, seen.began[run], ranked_again=self.ranked_again)
        return _predictions(sight, rarities)

    def predict_then_learn(self, models: pl.DataFrame, events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        seen = _Seen.of(models, events)
        sight = look(models, seen.runs, seen.times, seen.values, _trail(models, seen.runs))
        surprises = self._chosen(sight)
        rarities = np.zeros(len(seen.values))
        changed: dict[int, dict[str, Any]] = {}
        for run, rows in seen.surprised(surprises):
            model = int(seen.runs.model[run])
            history = _History.of(models.row(model, named=True))
            rarities[rows] = history.learn(
                surprises[:, rows], seen.times[rows], seen.began[run], ranked_again=self.ranked_again
            )
            changed[model] = history.columns()
        return _predictions(sight, rarities), _learned(models, seen, sight, changed)

    def predict_as_of(self, models: pl.DataFrame, events: pl.DataFrame, learned: pl.Series) -> pl.DataFrame:
        if (learned.to_numpy() == key_runs(models, events).rank).all():
            return self.predict_then_learn(models, events)[0]
        return predict_by_rounds(self, models, events, learned)

    def _chosen(self, sight: Sight) -> Floats:
        return sight.surprises[[VIEWS.index(view) for view in self.views]]


class _Seen(NamedTuple):
    """Events as arrays, beside their keys' models; `began` is the time of the first event of each run's key."""

    runs: KeyRuns
    values: Floats
    times: Integers
    began: list[int]

    @staticmethod
    def of(models: pl.DataFrame, events: pl.DataFrame) -> "_Seen":
        runs = key_runs(models, events)
        times = events["event_time"].to_physical().to_numpy()
        known, first = models["began"].gather(runs.model), pl.Series(times[runs.starts], dtype=pl.Int64)
        began = known.zip_with(known.is_not_null(), first)
        return _Seen(runs, np.clip(events["value"].to_numpy(), -WIDEST, WIDEST), times, began.to_list())

    def surprised(self, surprises: Floats) -> list[tuple[int, Integers]]:
        """The runs with any surprise, and the rows of those events."""
        rows = np.flatnonzero((surprises > 0.0).any(axis=0))
        run, starts = np.unique(self.runs.run[rows], return_index=True)
        return list(zip(run.tolist(), np.split(rows, starts[1:]), strict=True)) if len(rows) else []


class _History(NamedTuple):
    """What a model remembers of surprises: of each view, of the rarest view, and of the episode."""

    of_views: list[Largest]
    of_rarest: Largest
    episode: Episode

    @staticmethod
    def of(model: dict[str, Any]) -> "_History":
        *of_views, of_rarest = unpacked(model["size"], model["size_time"], model["size_count"])
        return _History(
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


def _trail(models: pl.DataFrame, runs: KeyRuns) -> Trail:
    strays, change_strays = (
        models[name].explode(empty_as_null=False).to_numpy().reshape(models.height, LASTING - 1)[runs.model]
        for name in ("last_strays", "last_change_strays")
    )
    return Trail(models["previous"].fill_null(float("nan")).to_numpy()[runs.model], strays, change_strays)


def _learned(models: pl.DataFrame, seen: _Seen, sight: Sight, changed: dict[int, dict[str, Any]]) -> pl.DataFrame:
    """The models once they have learned the events, given the columns of those whose history has changed."""
    runs, trail = seen.runs, sight.trail
    rows = np.arange(models.height)
    rows[list(changed)] = models.height + np.arange(len(changed))
    history = [
        pl.concat([models[name], pl.Series(name, [columns[name] for columns in changed.values()], dtype=kind)])[rows]
        for name, kind in _HISTORY.items()
    ]
    return models.with_columns(
        models["began"].scatter(runs.model, seen.began),
        models["previous"].scatter(runs.model, trail.previous),
        *cell_columns(sight.cells, models.height),
        _replaced(models["last_strays"], runs.model, trail.strays),
        _replaced(models["last_change_strays"], runs.model, trail.change_strays),
        *history,
    )


def _replaced(lists: pl.Series, rows: Integers, by: Floats) -> pl.Series:
    table = lists.explode(empty_as_null=False).to_numpy().reshape(len(lists), LASTING - 1).copy()
    table[rows] = by
    return pl.Series(lists.name, table, dtype=pl.Array(pl.Float64, LASTING - 1)).cast(pl.List(pl.Float64))


def _predictions(sight: Sight, rarities: Floats) -> pl.DataFrame:
    middle = sight.low + (sight.high - sight.low) / 2
    frame = pl.DataFrame(
        {
            "expected": np.clip(middle, sight.low, sight.high),
            "low": sight.low,
            "high": sight.high,
            "score": np.where(np.isnan(sight.low), 0.0, rarities / (rarities + HALF_AT)),
        }
    )
    return frame.with_columns(pl.col("expected", "low", "high").fill_nan(None))
