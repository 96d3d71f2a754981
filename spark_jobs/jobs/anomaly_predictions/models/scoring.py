"""Score deviations on one scale, for all models that predict a value and a standard deviation."""

import numpy as np
import polars as pl
from numpy.typing import NDArray

Floats = NDArray[np.float64]

HALF_AT = 4.0
"""Standard deviations from the expected value at which the score is one half."""
BAND = 3.0
"""Standard deviations from the expected value within which values are usual: the band from `low` to `high`."""
SEVEN_DEVIATIONS = 0.9
"""The score at about seven standard deviations. Metrics have much heavier tails than the normal distribution, so a lower
threshold would raise an alarm at every burst."""
WIDEST = 1e150
"""Values are clipped to this distance from zero, so that no square overflows."""

_FINEST = 1e-9
"""Standard deviations smaller than this share of the expected value are rounding errors."""


def predictions(values: Floats, expected: Floats, deviation: Floats) -> pl.DataFrame:
    """Make `protocol.PREDICTION` from the values, the expected values and the standard deviations (NaN if unknown).

    The score is `z^4 / (z^4 + HALF_AT^4)`, where z is the value's distance in standard deviations. Usual values score near 0
    (z = 1: 0.004, z = 2: 0.06), and very unusual ones differ (z = 8: 0.94, z = 20: 0.998). The tail probability of the normal
    distribution would spread usual values evenly from 0 to 1, and would not distinguish unusual ones.
    """
    spread = np.maximum(deviation, _FINEST * np.abs(expected))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        inverse = HALF_AT * spread
        inverse /= np.abs(values - expected)
        # Squared twice, in place: the fourth power.
        inverse *= inverse
        inverse *= inverse
        inverse += 1.0
        score = 1.0 / inverse
    # The score is NaN if nothing is known, and if a metric that never changed has its expected value (0 / 0).
    score[np.isnan(score)] = 0.0
    width = BAND * spread
    frame = pl.DataFrame(
        {
            "expected": np.where(np.isnan(deviation), np.nan, expected),
            "low": expected - width,
            "high": expected + width,
            "score": score,
        }
    )
    return frame.with_columns(pl.col("expected", "low", "high").fill_nan(None))
