"""Score how rare an event is by its return period in days, combined from three kinds of detectors. Meant for alarms.

1. **Surprises.** How far an event is outside of the bands of its time of day, in four views (`views`); how rare the level of
   its value is (`levels`); how long its value has not changed (`stays`).
2. **Rarity.** The return period of a surprise: how many events pass between two surprises as large (`largest`). It is
   computed for each view, for the maximum of the views, for the level, for the stay, and for the maximum of these three.
   A maximum of several detectors is large more often than each of them, so it is ranked again.
3. **News.** One alarm per episode (`surprise_history.Episode`).

Events are converted to days by the metric's mean time between events. The score is `days / (days + 3.5)`, so events that are
expected less than twice a week score above one half. There is no score until there is a previous day to compare with.
`docs/contributing/anomaly-detection.md` gives the reasons, and the value of each part.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from keyfold.columns import plain_columns
from spark_jobs.jobs.anomaly_predictions.models import levels, stays, surprise_history
from spark_jobs.jobs.anomaly_predictions.models.daily_bands import EDGES, cell_columns
from spark_jobs.jobs.anomaly_predictions.models.largest import HORIZON
from spark_jobs.jobs.anomaly_predictions.models.protocol import WIDEST
from spark_jobs.jobs.anomaly_predictions.models.runs import Floats, Integers, KeyRuns, at_number, key_runs
from spark_jobs.jobs.anomaly_predictions.models.surprise_history import History
from spark_jobs.jobs.anomaly_predictions.models.views import (
    LASTING,
    Path,
    Sight,
    score_and_learn,
    score_frozen,
)

HALF_AT = 3.5
"""Return period in days at which the score is one half."""
LONGEST = 60
"""Days after which a surprise is forgotten; at least `largest.HORIZON` events."""
_DAY = 86_400_000_000


@dataclass(frozen=True)
class Rarity:
    """The model `rarity`."""

    name = "rarity"
    version = 2
    threshold = 0.5
    state = pa.schema(
        [
            *plain_columns(pa.int64(), "known", "began", "newest"),
            pa.field("previous", pa.float64()),
            *plain_columns(pa.int64(), "same", "cell"),
            *plain_columns(pa.list_(pa.float64()), *EDGES, "last_strays"),
            *plain_columns(pa.float64(), "level_origin", "level_step", "level_least", "level_most"),
            pa.field("level_count", pa.list_(pa.int16())),
            pa.field("size", pa.list_(pa.float64())),
            *plain_columns(pa.list_(pa.int64()), "size_number", "size_count"),
            pa.field("peak", pa.list_(pa.float64())),
            pa.field("peak_number", pa.list_(pa.int64())),
            pa.field("news", pa.float64()),
            pa.field("news_number", pa.int64()),
        ]
    )
    """Number of events learned; times of the first and the newest (microseconds since 1970); the last value, and for how many
    events it has not changed; the last week's cells (`daily_bands`); the last strays (`views`); the state of `levels`
    and of `surprise_history`."""

    def initial(self, keys: pl.Series) -> pl.DataFrame:
        nothing, no_strays = pl.lit([], pl.List(pl.Float64)), pl.lit([0.0] * (LASTING - 1), pl.List(pl.Float64))
        return pl.DataFrame({"key": keys}).with_columns(
            pl.lit(0, pl.Int64).alias("known"),
            *(pl.lit(None, pl.Int64).alias(name) for name in ("began", "newest")),
            pl.lit(None, pl.Float64).alias("previous"),
            pl.lit(0, pl.Int64).alias("same"),
            pl.lit(None, pl.Int64).alias("cell"),
            *(nothing.alias(name) for name in EDGES),
            no_strays.alias("last_strays"),
            *levels.initial(len(keys)),
            *surprise_history.initial(len(keys)),
        )

    def predict(self, models: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
        if events.is_empty():
            return _nothing_predicted()
        seen, nothing = _Seen.of(models, events), np.zeros(events.height, np.int64)
        sight = score_frozen(models, seen.runs, seen.times, seen.values, _last_strays(models, seen.runs))
        pace, surprises = seen.pace(nothing), seen.surprises(sight, nothing)
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
        path = score_and_learn(models, seen.runs, seen.times, seen.values, _last_strays(models, seen.runs))
        pace, surprises = seen.pace(seen.runs.rank), seen.surprises(path.sight, seen.runs.rank)
        rarities = np.zeros(events.height)
        changed: dict[int, dict[str, Any]] = {}
        for run, rows in seen.surprised(surprises):
            model = int(seen.runs.model[run])
            history = History.of(models.row(model, named=True))
            rarities[rows] = history.learn(surprises[:, rows], pace.number[rows], pace.horizon[rows])
            changed[model] = history.columns()
        return _predictions(path.sight, rarities, pace), _learned(models, seen, path, changed)


class _Pace(NamedTuple):
    """For each event, the number of events known before it, its horizon in events, and the mean days between events."""

    number: Integers
    horizon: Integers
    days: Floats

    def of(self, row: int) -> tuple[int, int]:
        return self.number[row].item(), self.horizon[row].item()


class _Seen(NamedTuple):
    """Events as arrays with one row per event, and `known`, `began` and `newest` of their models with one row per run.

    `known` is the number of events that the run's model had learned before the call. `began` and `newest` are the times of the
    first and the newest of them.
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

    def surprises(self, sight: Sight, learned: Integers) -> Floats:
        """Compute the surprises of each event by a model that has learned this number of its events here.

        The rows are one for each of `VIEWS`, the surprise of the level, and that of the stay.
        """
        has_changed = self.levels.grid.step[levels.piece_after(self.levels, self.runs, learned)] > 0.0
        of_levels = levels.surprises(self.levels, self.runs, self.known, self.values, learned)
        of_stays = stays.surprises(self.stays, self.runs, learned, has_changed)
        return np.vstack([sight.surprises, of_levels, of_stays])

    def pace(self, learned: Integers) -> _Pace:
        """Compute the pace of each event's metric, if the model has learned this number of its events here."""
        number = self.known[self.runs.run] + learned
        newest = np.maximum(at_number(self.times, self.newest, self.runs, learned), self.newest[self.runs.run])
        span = np.maximum(newest, self.times) - self.began[self.runs.run]
        days = np.divide(span / _DAY, number, out=np.zeros(len(span)), where=number > 0)
        in_longest = np.divide(LONGEST, days, out=np.zeros(len(span)), where=days > 0.0)
        # Up to 2^53, a float converts to an integer exactly.
        return _Pace(number, np.clip(in_longest, HORIZON, 2.0**53).astype(np.int64), days)

    def surprised(self, surprises: Floats) -> list[tuple[int, Integers]]:
        """Return the runs that have surprises, with the rows of the surprising events."""
        rows = np.flatnonzero((surprises > 0.0).any(axis=0))
        run, starts = np.unique(self.runs.run[rows], return_index=True)
        return list(zip(run.tolist(), np.split(rows, starts[1:]), strict=True)) if len(rows) else []


def _last_strays(models: pl.DataFrame, runs: KeyRuns) -> Floats:
    strays = models["last_strays"].explode(empty_as_null=False).to_numpy().reshape(models.height, LASTING - 1)
    return strays[runs.model]


def _learned(models: pl.DataFrame, seen: _Seen, path: Path, changed: dict[int, dict[str, Any]]) -> pl.DataFrame:
    """Update the models; `changed` has the new history columns by row of the model."""
    runs, ends = seen.runs, seen.runs.starts + seen.runs.counts - 1
    rows = np.arange(models.height)
    rows[list(changed)] = models.height + np.arange(len(changed))
    history = [
        pl.concat([models[name], pl.Series(name, [columns[name] for columns in changed.values()], dtype=kind)])[rows]
        for name, kind in surprise_history.COLUMNS.items()
    ]
    newest = np.maximum(seen.newest, seen.times[ends])
    return models.with_columns(
        models["known"].scatter(runs.model, seen.known + runs.counts),
        models["began"].scatter(runs.model, seen.began),
        models["newest"].scatter(runs.model, newest),
        models["previous"].scatter(runs.model, seen.values[ends]),
        models["same"].scatter(runs.model, seen.stays.lengths[ends]),
        *cell_columns(path.cells, models.height),
        _replaced(models["last_strays"], runs.model, path.last_strays),
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
