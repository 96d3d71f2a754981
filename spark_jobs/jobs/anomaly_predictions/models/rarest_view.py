"""The rarest view: how many days pass until any of five weak views of a metric sees the like again. For alarms.

1. **Views.** How far each event strays from what is usual at this time of day, in five ways (`views`).
2. **Rarity.** How many days pass between two strays as large in that view (`largest`). The rarest view counts. Five
   chances to be rare are more than one, so the rarest of five is ranked once more among its own past: what was
   promised of one view then holds for all together.
3. **News.** One alarm an episode (`episodes`).

The score is `days / (days + 3.5)`: above one half is what comes less than twice a week. There is no score until there
was a day to compare with. `docs/anomaly-detection.md` has what led to this, and what each part is good for.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from spark_jobs.jobs.anomaly_predictions.models.daily_bands import EDGES, NEAREST_CELL, cell_columns, event_cells
from spark_jobs.jobs.anomaly_predictions.models.episodes import LONG_AGO
from spark_jobs.jobs.anomaly_predictions.models.rounds import predict_by_rounds
from spark_jobs.jobs.anomaly_predictions.models.runs import Floats, Integers, KeyRuns, key_runs
from spark_jobs.jobs.anomaly_predictions.models.scoring import WIDEST
from spark_jobs.jobs.anomaly_predictions.models.surprise_history import HISTORY, History
from spark_jobs.jobs.anomaly_predictions.models.views import (
    LASTING,
    VIEWS,
    Path,
    Sight,
    Trail,
    score_and_learn,
    score_as_of,
    score_frozen,
)

HALF_AT = 3.5
"""Days between two events as rare at which the score is one half."""


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
    (`views.Trail`); what is remembered of surprises (`surprise_history`)."""

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
        sight = score_frozen(models, seen.runs, seen.times, seen.values, _trail(models, seen.runs))
        surprises = self._chosen(sight)
        rarities = np.zeros(len(seen.values))
        for run, rows in seen.surprised(surprises):
            history = History.of(models.row(int(seen.runs.model[run]), named=True))
            for row in rows.tolist():
                size, time = surprises[:, row].tolist(), int(seen.times[row])
                rarities[row] = history.rarity(size, time, seen.began[run], ranked_again=self.ranked_again)
        return _predictions(sight, rarities)

    def predict_then_learn(self, models: pl.DataFrame, events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        seen = _Seen.of(models, events)
        path = score_and_learn(models, seen.runs, seen.times, seen.values, _trail(models, seen.runs))
        surprises = self._chosen(path.sight)
        rarities = np.zeros(len(seen.values))
        changed: dict[int, dict[str, Any]] = {}
        for run, rows in seen.surprised(surprises):
            model = int(seen.runs.model[run])
            history = History.of(models.row(model, named=True))
            rarities[rows] = history.learn(
                surprises[:, rows], seen.times[rows], seen.began[run], ranked_again=self.ranked_again
            )
            changed[model] = history.columns()
        return _predictions(path.sight, rarities), _learned(models, seen, path, changed)

    def predict_as_of(self, models: pl.DataFrame, events: pl.DataFrame, learned: pl.Series) -> pl.DataFrame:
        seen, wanted = _Seen.of(models, events), learned.to_numpy()
        if (wanted > seen.runs.rank).any() or (wanted < seen.compared_with()).any():
            return predict_by_rounds(self, models, events, learned)
        trail = _trail(models, seen.runs)
        path = score_and_learn(models, seen.runs, seen.times, seen.values, trail)
        sight = score_as_of(models, seen.runs, seen.times, seen.values, trail, path, wanted)
        past, surprises = self._chosen(path.sight), self._chosen(sight)
        past_rows = np.flatnonzero((past > 0.0).any(axis=0))
        rarities = np.zeros(len(seen.values))
        for run, rows in seen.surprised(surprises):
            history = History.of(models.row(int(seen.runs.model[run]), named=True))
            until = np.searchsorted(past_rows, seen.runs.starts[run] + wanted[rows]).tolist()
            reached = int(np.searchsorted(past_rows, seen.runs.starts[run]))
            for row, end in zip(rows.tolist(), until, strict=True):
                if end > reached:
                    new, reached = past_rows[reached:end], end
                    history.learn(past[:, new], seen.times[new], seen.began[run], ranked_again=self.ranked_again)
                size, time = surprises[:, row].tolist(), int(seen.times[row])
                rarities[row] = history.rarity(size, time, seen.began[run], ranked_again=self.ranked_again)
        return _predictions(sight, rarities)

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

    def compared_with(self) -> Integers:
        """Of each event how many events of its key before it here may lie in cells that it is compared with."""
        numbers = event_cells(self.runs, self.times)
        newest = np.searchsorted(numbers, numbers - NEAREST_CELL, side="right")
        return newest - self.runs.starts[self.runs.run]

    def surprised(self, surprises: Floats) -> list[tuple[int, Integers]]:
        """The runs with any surprise, and the rows of those events."""
        rows = np.flatnonzero((surprises > 0.0).any(axis=0))
        run, starts = np.unique(self.runs.run[rows], return_index=True)
        return list(zip(run.tolist(), np.split(rows, starts[1:]), strict=True)) if len(rows) else []


def _trail(models: pl.DataFrame, runs: KeyRuns) -> Trail:
    strays, change_strays = (
        models[name].explode(empty_as_null=False).to_numpy().reshape(models.height, LASTING - 1)[runs.model]
        for name in ("last_strays", "last_change_strays")
    )
    return Trail(models["previous"].fill_null(float("nan")).to_numpy()[runs.model], (strays, change_strays))


def _learned(models: pl.DataFrame, seen: _Seen, path: Path, changed: dict[int, dict[str, Any]]) -> pl.DataFrame:
    """The models once they have learned the events, given the columns of those whose history has changed."""
    runs, trail = seen.runs, path.trail
    rows = np.arange(models.height)
    rows[list(changed)] = models.height + np.arange(len(changed))
    history = [
        pl.concat([models[name], pl.Series(name, [columns[name] for columns in changed.values()], dtype=kind)])[rows]
        for name, kind in HISTORY.items()
    ]
    return models.with_columns(
        models["began"].scatter(runs.model, seen.began),
        models["previous"].scatter(runs.model, trail.previous),
        *cell_columns(path.cells, models.height),
        _replaced(models["last_strays"], runs.model, trail.strays[0]),
        _replaced(models["last_change_strays"], runs.model, trail.strays[1]),
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
