"""Predict a value by the exponentially weighted mean and variance of the values before it.

The expected value is the exponentially weighted mean. The deviation is the square root of the exponentially weighted mean of
the squared prediction errors. Both are corrected for the bias of a short history. Suits metrics that change slowly and have no
daily pattern.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from spark_jobs.jobs.anomaly_predictions.models.recursion import (
    Floats,
    Integers,
    decaying_sums,
    of_number,
    total_weights,
)
from spark_jobs.jobs.anomaly_predictions.models.runs import KeyRuns, at_end, at_number, before_each, key_runs
from spark_jobs.jobs.anomaly_predictions.models.scoring import SEVEN_DEVIATIONS, WIDEST, predictions

_LEVEL_SHARE = 0.05
"""Weight of the newest value in the mean."""

_SPREAD_SHARE = 0.01
"""Weight of the newest squared error in the variance."""

_LEVEL_WEIGHTS, _SPREAD_WEIGHTS = total_weights(_LEVEL_SHARE), total_weights(_SPREAD_SHARE)


@dataclass(frozen=True)
class Ewma:
    """The model `ewma`."""

    name = "ewma"
    version = 1
    threshold = SEVEN_DEVIATIONS
    half_at = None
    state = pa.schema([pa.field("n", pa.int64()), pa.field("level", pa.float64()), pa.field("spread", pa.float64())])
    """Number of values learned; decaying sum of values; decaying sum of squared errors (of all values but the first)."""

    def initial(self, keys: pl.Series) -> pl.DataFrame:
        return pl.DataFrame({"key": keys}).with_columns(n=pl.lit(0, pl.Int64), level=pl.lit(0.0), spread=pl.lit(0.0))

    def learn(self, models: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
        return self._learned(models, self._path(models, events))

    def predict(self, models: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
        model = key_runs(models, events)
        of_event = model.model[model.run]
        number, level, spread = (models[column].to_numpy()[of_event] for column in self.state.names)
        return self._predicted(events["value"].to_numpy(), number, level, spread)

    def predict_then_learn(self, models: pl.DataFrame, events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        path = self._path(models, events)
        spread = before_each(path.spreads, path.spread, path.runs)
        so_far = path.number[path.runs.run] + path.runs.rank
        deviation = self._deviation(so_far, spread)
        return predictions(events["value"].to_numpy(), path.expected, deviation), self._learned(models, path)

    def predict_as_of(self, models: pl.DataFrame, events: pl.DataFrame, learned: pl.Series) -> pl.DataFrame:
        return self._as_of(events, self._path(models, events), learned.to_numpy())

    def _path(self, models: pl.DataFrame, events: pl.DataFrame) -> "_Path":
        """Learn the events; return the models' state after each event."""
        runs = key_runs(models, events)
        number, level, spread = (models[column].to_numpy()[runs.model] for column in self.state.names)
        values = np.clip(events["value"].to_numpy(), -WIDEST, WIDEST)
        levels = decaying_sums(_LEVEL_SHARE * values, runs.starts, runs.counts, level, 1.0 - _LEVEL_SHARE)
        so_far = number[runs.run] + runs.rank
        expected = self._mean(so_far, before_each(levels, level, runs))
        error = values - expected
        # The first value has no prediction, and so no error.
        squares = np.where(so_far > 0, _SPREAD_SHARE * (error * error), 0.0)
        spreads = decaying_sums(squares, runs.starts, runs.counts, spread, 1.0 - _SPREAD_SHARE)
        return _Path(runs, number, level, spread, levels, spreads, expected)

    def _learned(self, models: pl.DataFrame, path: "_Path") -> pl.DataFrame:
        n, level, spread = (models[column].to_numpy() for column in self.state.names)
        added = np.zeros(models.height, dtype=np.int64)
        added[path.runs.model] = path.runs.counts
        return models.with_columns(
            n=pl.Series(n + added, dtype=pl.Int64),
            level=pl.Series(at_end(path.levels, level, path.runs)),
            spread=pl.Series(at_end(path.spreads, spread, path.runs)),
        )

    def _as_of(self, events: pl.DataFrame, path: "_Path", learned: Integers) -> pl.DataFrame:
        level = at_number(path.levels, path.level, path.runs, learned)
        spread = at_number(path.spreads, path.spread, path.runs, learned)
        return self._predicted(events["value"].to_numpy(), path.number[path.runs.run] + learned, level, spread)

    def _predicted(self, values: Floats, number: Integers, level: Floats, spread: Floats) -> pl.DataFrame:
        return predictions(values, self._mean(number, level), self._deviation(number, spread))

    def _mean(self, number: Integers, level: Floats) -> Floats:
        """Return the weighted mean of this number of values; NaN if there are none."""
        with np.errstate(invalid="ignore"):
            return level / of_number(_LEVEL_WEIGHTS, number)

    def _deviation(self, number: Integers, spread: Floats) -> Floats:
        """Return the standard deviation of the errors of all values but the first, which has none; NaN if there are none."""
        with np.errstate(invalid="ignore"):
            return np.sqrt(spread / of_number(_SPREAD_WEIGHTS, np.maximum(number - 1, 0)))


class _Path(NamedTuple):
    """The state of models before the call, one row per run, and after each event, one row per event.

    `expected` is the prediction of each event's value by the events before it.
    """

    runs: KeyRuns
    number: Integers
    level: Floats
    spread: Floats
    levels: Floats
    spreads: Floats
    expected: Floats
