"""Rarity: how many days pass until a metric does the like again, as three unlike detectors see it. For alarms.

1. **Surprises.** How far an event lies outside of what is usual at this time of day, in five views (`views`); how seldom
   the level of its value was there (`levels`); how long its value has stayed the same (`stays`).
2. **Rarity.** How many events pass between two surprises as large: their return period (`largest`). It is taken in each
   view and then of the rarest view, of the level, of the stay, and then of the rarest of these three: choosing the
   rarest of several adds chances to be rare, which the next ranking takes out again.
3. **News.** One alarm an episode (`episodes`).

Events become days by the metric's own mean time between events. The score is `days / (days + 3.5)`: above one half is
what comes less than twice a week. There is no score until there was a day to compare with.
`docs/explanation/anomaly-detection.md` says what led to this, and what each part is good for.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from spark_jobs.jobs.anomaly_predictions.models import levels, stays, surprise_history
from spark_jobs.jobs.anomaly_predictions.models.daily_bands import EDGES, NEAREST_CELL, cell_columns, event_cells
from spark_jobs.jobs.anomaly_predictions.models.largest import HORIZON
from spark_jobs.jobs.anomaly_predictions.models.rounds import predict_by_rounds
from spark_jobs.jobs.anomaly_predictions.models.runs import Floats, Integers, KeyRuns, at_number, key_runs
from spark_jobs.jobs.anomaly_predictions.models.scoring import WIDEST
from spark_jobs.jobs.anomaly_predictions.models.surprise_history import History
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
LONGEST = 60
"""Days after which a surprise is forgotten, where that is more than `largest.HORIZON` events."""
PARTS = (*VIEWS, "level", "stay")
_DAY = 86_400_000_000


@dataclass(frozen=True)
class Rarity:
    """The model `rarity`.

    Attributes:
        parts: those of `PARTS` that it looks at; all, except to measure what each is good for.
    """

    parts: tuple[str, ...] = PARTS
    name = "rarity"
    version = 1
    threshold = 0.5
    half_at = HALF_AT
    state = pa.schema(
        [
            pa.field("known", pa.int64()),
            pa.field("began", pa.int64()),
            pa.field("newest", pa.int64()),
            pa.field("previous", pa.float64()),
            pa.field("same", pa.int64()),
            pa.field("cell", pa.int64()),
            *(pa.field(name, pa.list_(pa.float64())) for name in EDGES),
            pa.field("last_strays", pa.list_(pa.float64())),
            pa.field("last_change_strays", pa.list_(pa.float64())),
            pa.field("level_origin", pa.float64()),
            pa.field("level_step", pa.float64()),
            pa.field("level_least", pa.float64()),
            pa.field("level_most", pa.float64()),
            pa.field("level_count", pa.list_(pa.int16())),
            pa.field("size", pa.list_(pa.float64())),
            pa.field("size_number", pa.list_(pa.int64())),
            pa.field("size_count", pa.list_(pa.int64())),
            pa.field("peak", pa.list_(pa.float64())),
            pa.field("peak_number", pa.list_(pa.int64())),
            pa.field("news", pa.float64()),
            pa.field("news_number", pa.int64()),
        ]
    )
    """Events learned, times of the first and the newest (microseconds), value learned last; the last week's cells
    (`daily_bands`) and strays (`views.Trail`); `levels`; what is remembered of surprises (`surprise_history`)."""

    def initial(self, keys: pl.Series) -> pl.DataFrame:
        nothing, no_strays = pl.lit([], pl.List(pl.Float64)), pl.lit([0.0] * (LASTING - 1), pl.List(pl.Float64))
        return pl.DataFrame({"key": keys}).with_columns(
            pl.lit(0, pl.Int64).alias("known"),
            *(pl.lit(None, pl.Int64).alias(name) for name in ("began", "newest")),
            pl.lit(None, pl.Float64).alias("previous"),
            pl.lit(0, pl.Int64).alias("same"),
            pl.lit(None, pl.Int64).alias("cell"),
            *(nothing.alias(name) for name in EDGES),
            *(no_strays.alias(name) for name in ("last_strays", "last_change_strays")),
            *levels.initial(len(keys)),
            *surprise_history.initial(len(keys)),
        )

    def learn(self, models: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
        return self.predict_then_learn(models, events)[1]

    def predict(self, models: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
        if events.is_empty():
            return _nothing_predicted()
        seen, nothing = _Seen.of(models, events), np.zeros(events.height, np.int64)
        sight = score_frozen(models, seen.runs, seen.times, seen.values, _trail(models, seen.runs))
        pace, surprises = seen.pace(nothing), seen.surprises(sight, nothing, self.parts)
        rarities = np.zeros(events.height)
        for run, rows in seen.surprised(surprises):
            history = History.of(models.row(int(seen.runs.model[run]), named=True))
            for row in rows.tolist():
                rarities[row] = history.rarity(surprises[:, row].tolist(), *pace.of(row))
        return _predictions(sight, rarities, pace)

    def predict_then_learn(self, models: pl.DataFrame, events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        if events.is_empty():
            return _nothing_predicted(), models
        seen = _Seen.of(models, events)
        path = score_and_learn(models, seen.runs, seen.times, seen.values, _trail(models, seen.runs))
        pace, surprises = seen.pace(seen.runs.rank), seen.surprises(path.sight, seen.runs.rank, self.parts)
        rarities = np.zeros(events.height)
        changed: dict[int, dict[str, Any]] = {}
        for run, rows in seen.surprised(surprises):
            model = int(seen.runs.model[run])
            history = History.of(models.row(model, named=True))
            rarities[rows] = history.learn(surprises[:, rows], pace.number[rows], pace.horizon[rows])
            changed[model] = history.columns()
        return _predictions(path.sight, rarities, pace), _learned(models, seen, path, changed)

    def predict_as_of(self, models: pl.DataFrame, events: pl.DataFrame, learned: pl.Series) -> pl.DataFrame:
        if events.is_empty():
            return _nothing_predicted()
        seen, wanted = _Seen.of(models, events), learned.to_numpy()
        if (wanted > seen.runs.rank).any() or (wanted < seen.compared_with()).any():
            return predict_by_rounds(self, models, events, learned)
        trail = _trail(models, seen.runs)
        path = score_and_learn(models, seen.runs, seen.times, seen.values, trail)
        sight = score_as_of(models, seen.runs, seen.times, seen.values, trail, path, wanted)
        past, surprises = (
            seen.surprises(path.sight, seen.runs.rank, self.parts),
            seen.surprises(sight, wanted, self.parts),
        )
        past_pace, pace = seen.pace(seen.runs.rank), seen.pace(wanted)
        past_rows = np.flatnonzero((past > 0.0).any(axis=0))
        rarities = np.zeros(events.height)
        for run, rows in seen.surprised(surprises):
            history = History.of(models.row(int(seen.runs.model[run]), named=True))
            until = np.searchsorted(past_rows, seen.runs.starts[run] + wanted[rows]).tolist()
            reached = int(np.searchsorted(past_rows, seen.runs.starts[run]))
            for row, end in zip(rows.tolist(), until, strict=True):
                if end > reached:
                    new, reached = past_rows[reached:end], end
                    history.learn(past[:, new], past_pace.number[new], past_pace.horizon[new])
                rarities[row] = history.rarity(surprises[:, row].tolist(), *pace.of(row))
        return _predictions(sight, rarities, pace)


class _Pace(NamedTuple):
    """Of each event how many are known before it, after how many it is forgotten, and the mean days between two."""

    number: Integers
    horizon: Integers
    days: Floats

    def of(self, row: int) -> tuple[int, int]:
        return self.number[row].item(), self.horizon[row].item()


class _Seen(NamedTuple):
    """Events as arrays, beside their keys' models: a row an event; of `known`, `began` and `newest` a row a run.

    `known` is how many events the model of a run has learned before; `began` and `newest` are the times of the first
    and the newest one.
    """

    runs: KeyRuns
    values: Floats
    times: Integers
    known: Integers
    began: Integers
    newest: Integers
    levels: levels.Learned
    stays: stays.Stays

    @staticmethod
    def of(models: pl.DataFrame, events: pl.DataFrame) -> "_Seen":
        runs = key_runs(models, events)
        times = events["event_time"].to_physical().to_numpy()
        known = models["known"].to_numpy()[runs.model]
        first = pl.Series(times[runs.starts], dtype=pl.Int64)
        began, newest = (
            column.zip_with(column.is_not_null(), first).to_numpy()
            for column in (models[name].gather(runs.model) for name in ("began", "newest"))
        )
        values = np.clip(events["value"].to_numpy(), -WIDEST, WIDEST)
        before = (models[name].gather(runs.model).to_numpy() for name in ("previous", "same"))
        return _Seen(
            runs,
            values,
            times,
            known,
            began,
            newest,
            levels.learn(models, known, runs, times, values),
            stays.learn(values, runs, *before),
        )

    def surprises(self, sight: Sight, learned: Integers, parts: tuple[str, ...]) -> Floats:
        """The surprises of each event, a row a part, once the model has learned so many events here."""
        has_changed = self.levels.grid.step[levels.piece_after(self.levels, self.runs, learned)] > 0.0
        of_levels = levels.surprises(self.levels, self.runs, self.known, self.values, learned)
        of_stays = stays.surprises(self.stays, self.runs, learned, has_changed)
        surprises = np.vstack([sight.surprises, of_levels, of_stays])
        surprises[[part not in parts for part in PARTS]] = 0.0
        return surprises

    def pace(self, learned: Integers) -> _Pace:
        """The pace of each event's metric once the model has learned so many of its events here."""
        number = self.known[self.runs.run] + learned
        newest = np.maximum(at_number(self.times, self.newest, self.runs, learned), self.newest[self.runs.run])
        span = np.maximum(newest, self.times) - self.began[self.runs.run]
        days = np.divide(span / _DAY, number, out=np.zeros(len(span)), where=number > 0)
        in_longest = np.divide(LONGEST, days, out=np.zeros(len(span)), where=days > 0.0)
        return _Pace(number, np.clip(in_longest, HORIZON, 2.0**53).astype(np.int64), days)

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
        for name, kind in surprise_history.COLUMNS.items()
    ]
    newest = np.maximum(seen.newest, seen.times[runs.starts + runs.counts - 1])
    return models.with_columns(
        models["known"].scatter(runs.model, seen.known + runs.counts),
        models["began"].scatter(runs.model, seen.began),
        models["newest"].scatter(runs.model, newest),
        models["previous"].scatter(runs.model, trail.previous),
        models["same"].scatter(runs.model, seen.stays.lengths[runs.starts + runs.counts - 1]),
        *cell_columns(path.cells, models.height),
        _replaced(models["last_strays"], runs.model, trail.strays[0]),
        _replaced(models["last_change_strays"], runs.model, trail.strays[1]),
        *levels.columns(models, runs, seen.levels),
        *history,
    )


def _replaced(lists: pl.Series, rows: Integers, by: Floats) -> pl.Series:
    table = lists.explode(empty_as_null=False).to_numpy().reshape(len(lists), LASTING - 1).copy()
    table[rows] = by
    return pl.Series(lists.name, table, dtype=pl.Array(pl.Float64, LASTING - 1)).cast(pl.List(pl.Float64))


def _predictions(sight: Sight, rarities: Floats, pace: _Pace) -> pl.DataFrame:
    middle = sight.low + (sight.high - sight.low) / 2
    days = rarities * pace.days
    frame = pl.DataFrame(
        {
            "expected": np.clip(middle, sight.low, sight.high),
            "low": sight.low,
            "high": sight.high,
            "score": np.where(np.isnan(sight.low), 0.0, days / (days + HALF_AT)),
        }
    )
    return frame.with_columns(pl.col("expected", "low", "high").fill_nan(None))


def _nothing_predicted() -> pl.DataFrame:
    return pl.DataFrame(schema=dict.fromkeys(("expected", "low", "high", "score"), pl.Float64))
