"""Predict a value by the exponentially weighted mean and variance of the values before it.

The expected value is the exponentially weighted mean. The deviation is the square root of the exponentially weighted mean of
the squared prediction errors. Both are corrected for the bias of a short history. Suits metrics that change slowly and have no
daily pattern.
"""

from collections.abc import Iterable
from itertools import accumulate
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from spark_jobs.jobs.anomaly_predictions.models.protocol import Floats, Integers, KeyRuns, Model, Scored

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


class Ewma(Model):
    """The model `ewma`."""

    name = "ewma"
    version = 2
    threshold = _SEVEN_DEVIATIONS
    state = pa.schema([pa.field(name, pa.float64()) for name in ("level", "weight", "spread", "spread_weight")])
    """Decaying sums of the values and of their weights, and of the squared errors (of all values but the first) and theirs."""
    untrained = MappingProxyType(dict.fromkeys(state.names, 0.0))

    def score(
        self, models: pl.DataFrame, runs: KeyRuns, times: Integers, values: Floats, *, learns: bool
    ) -> tuple[Scored, dict[str, Any]]:
        if not learns:
            level, weight, spread, spread_weight = models[self.state.names].to_numpy()[runs.key].T
            return _scored(values, _divided(level, weight), _divided(spread, spread_weight)), {}

        def sums(name: str, inputs: Floats, share: float) -> tuple[Floats, list[float]]:
            return _decaying_sums(np.split(inputs, runs.starts[1:]), models[name], share)

        level, last_level = sums("level", values, _LEVEL_SHARE)
        weight, last_weight = sums("weight", np.ones(len(values)), _LEVEL_SHARE)
        expected = _divided(level, weight)
        # The first value has no prediction, and so no error.
        has_error = (weight > 0.0).astype(np.float64)
        errors = np.where(has_error, values - expected, 0.0)
        spread, last_spread = sums("spread", errors * errors, _SPREAD_SHARE)
        spread_weight, last_spread_weight = sums("spread_weight", has_error, _SPREAD_SHARE)
        last = (last_level, last_weight, last_spread, last_spread_weight)
        changed = dict(zip(self.state.names, map(pl.Series, last), strict=True))
        return _scored(values, expected, _divided(spread, spread_weight)), changed


def _decaying_sums(inputs: Iterable[Floats], before: Iterable[float], share: float) -> tuple[Floats, list[float]]:
    """Return each key's sums before each of its inputs, and after its last: `sum = share * input + (1 - share) * sum`."""
    keep, found, last = 1.0 - share, [], []
    for of_key, initial in zip(inputs, before, strict=True):
        *sums, end = accumulate((share * of_key).tolist(), lambda sum, added: added + keep * sum, initial=initial)
        found += sums
        last.append(end)
    return np.array(found), last


def _divided(sums: Floats, weights: Floats) -> Floats:
    """Return the means of decaying sums; NaN if there is no input.

    At the start, the weights of the inputs add up to less than one, so the sum is divided by their total (the bias correction of
    Adam, Kingma and Ba 2015).
    """
    with np.errstate(invalid="ignore"):
        return sums / weights


def _scored(values: Floats, expected: Floats, variance: Floats) -> Scored:
    """Compute the score `z^4 / (z^4 + _HALF_AT^4)`, where z is the value's distance in standard deviations.

    Usual values score near 0 (z = 1: 0.004, z = 2: 0.06), and very unusual ones differ (z = 8: 0.94, z = 20: 0.998). The tail
    probability of the normal distribution would spread usual values evenly from 0 to 1, and would not distinguish unusual ones.
    """
    deviation = np.maximum(np.sqrt(variance), _FINEST * np.abs(expected))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        score = 1.0 / (1.0 + (_HALF_AT * deviation / np.abs(values - expected)) ** 4)
    # The score is NaN if nothing is known, and if a metric that never changed has its expected value (0 / 0).
    score[np.isnan(score)] = 0.0
    is_known = ~np.isnan(variance)
    expected = np.where(is_known, expected, np.nan)
    return Scored(expected, expected - _BAND * deviation, expected + _BAND * deviation, score)
