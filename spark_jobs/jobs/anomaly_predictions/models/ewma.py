"""Predict a value by the exponentially weighted mean and variance of the values before it.

The expected value is the exponentially weighted mean. The deviation is the square root of the exponentially weighted mean of
the squared prediction errors. Both are corrected for the bias of a short history. Suits metrics that change slowly and have no
daily pattern.
"""

from dataclasses import dataclass
from itertools import accumulate, islice
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from spark_jobs.jobs.anomaly_predictions.models.protocol import WIDEST
from spark_jobs.jobs.anomaly_predictions.models.runs import Floats, Integers, KeyRuns, at_end, before_each, key_runs

_LEVEL_SHARE = 0.05
"""Weight of the newest value in the mean."""

_SPREAD_SHARE = 0.01
"""Weight of the newest squared error in the variance."""

_HALF_AT = 4.0
"""Standard deviations from the expected value at which the score is one half."""
_BAND = 3.0
"""Standard deviations from the expected value within which values are usual: the band from `low` to `high`."""
_SEVEN_DEVIATIONS = 0.9
"""The score at about seven standard deviations. Metrics have much heavier tails than the normal distribution, so a lower
threshold would raise an alarm at every burst."""

_FINEST = 1e-9
"""Standard deviations smaller than this share of the expected value are rounding errors."""

_EVENTS_A_STEP = 25
"""Cost of one vectorized step over all runs, in events summed one by one."""


@dataclass(frozen=True)
class Ewma:
    """The model `ewma`."""

    name = "ewma"
    version = 1
    threshold = _SEVEN_DEVIATIONS
    state = pa.schema([pa.field("n", pa.int64()), pa.field("level", pa.float64()), pa.field("spread", pa.float64())])
    """Number of values learned; decaying sum of values; decaying sum of squared errors (of all values but the first)."""

    def initial(self, keys: pl.Series) -> pl.DataFrame:
        return pl.DataFrame({"key": keys}).with_columns(n=pl.lit(0, pl.Int64), level=pl.lit(0.0), spread=pl.lit(0.0))

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
        return _predictions(events["value"].to_numpy(), path.expected, deviation), self._learned(models, path)

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

    def _predicted(self, values: Floats, number: Integers, level: Floats, spread: Floats) -> pl.DataFrame:
        return _predictions(values, self._mean(number, level), self._deviation(number, spread))

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


def _predictions(values: Floats, expected: Floats, deviation: Floats) -> pl.DataFrame:
    """Make `protocol.PREDICTION` from the values, the expected values and the standard deviations (NaN if unknown).

    The score is `z^4 / (z^4 + _HALF_AT^4)`, where z is the value's distance in standard deviations. Usual values score near 0
    (z = 1: 0.004, z = 2: 0.06), and very unusual ones differ (z = 8: 0.94, z = 20: 0.998). The tail probability of the normal
    distribution would spread usual values evenly from 0 to 1, and would not distinguish unusual ones.
    """
    spread = np.maximum(deviation, _FINEST * np.abs(expected))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        inverse = _HALF_AT * spread
        inverse /= np.abs(values - expected)
        # Squared twice, in place: the fourth power.
        inverse *= inverse
        inverse *= inverse
        inverse += 1.0
        score = 1.0 / inverse
    # The score is NaN if nothing is known, and if a metric that never changed has its expected value (0 / 0).
    score[np.isnan(score)] = 0.0
    width = _BAND * spread
    frame = pl.DataFrame(
        {
            "expected": np.where(np.isnan(deviation), np.nan, expected),
            "low": expected - width,
            "high": expected + width,
            "score": score,
        }
    )
    return frame.with_columns(pl.col("expected", "low", "high").fill_nan(None))


def decaying_sums(inputs: Floats, starts: Integers, counts: Integers, before: Floats, keep: float) -> Floats:
    """Return the sum after each input of a run: `sum = keep * sum + input`, starting with the run's `before`.

    Run i has `counts[i]` inputs from row `starts[i]`. A vectorized step adds the next input of every run that has one. When too
    few runs are left for a step to be worth it, the rest of the longest runs is summed one by one. Both round twice per input,
    so the results are the same bits.
    """
    after = np.empty(len(inputs))
    order = np.argsort(-counts, kind="stable")
    starts, counts, sums = starts[order], counts[order], before[order]
    longest = int(counts[0]) if len(counts) else 0
    # The number of runs with an input at each step; runs are sorted by descending length.
    going = np.searchsorted(-counts, -np.arange(longest + 1))
    left = len(inputs) - (np.cumsum(going) - going)
    # The number of steps with the lowest cost, given the inputs left after each.
    steps = int(np.argmin(_EVENTS_A_STEP * np.arange(longest + 1) + left))
    for step, runs in enumerate(going[:steps].tolist()):
        places = starts[:runs] + step
        sums[:runs] = inputs[places] + keep * sums[:runs]
        after[places] = sums[:runs]
    for run in range(int(going[steps])):
        part = slice(starts[run] + steps, starts[run] + counts[run])
        totals = accumulate(inputs[part].tolist(), lambda total, value: value + keep * total, initial=sums[run].item())
        after[part] = np.fromiter(islice(totals, 1, None), np.float64, counts[run] - steps)
    return after


def total_weights(share: float) -> Floats:
    """Return the total weight of a decaying mean by number of events, up to the number from which it is constant.

    The newest event has the weight `share`, and earlier ones share the rest. At the start, the weights add up to less than one,
    so divide the mean by this total (the bias correction of Adam, Kingma and Ba 2015).
    """
    weights = [0.0]
    while len(weights) < 2 or weights[-1] != weights[-2]:
        weights.append(share + (1.0 - share) * weights[-1])
    return np.array(weights)


def of_number(weights: Floats, number: Integers) -> Floats:
    """Return the total weight for each number of events."""
    return weights[np.minimum(number, len(weights) - 1)]


_LEVEL_WEIGHTS, _SPREAD_WEIGHTS = total_weights(_LEVEL_SHARE), total_weights(_SPREAD_SHARE)
