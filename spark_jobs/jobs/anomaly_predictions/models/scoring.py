"""How unusual a deviation is: one scale for all models that expect a value and know how far values usually lie from it."""

import numpy as np
import polars as pl
from numpy.typing import NDArray

Floats = NDArray[np.float64]

HALF_AT = 4.0
"""Standard deviations from the expected value at which the score is one half."""
BAND = 3.0
"""Standard deviations from the expected value within which values are usual: the band from `low` to `high`."""
SEVEN_DEVIATIONS = 0.9
"""The score at (almost) seven standard deviations. Metrics have tails far heavier than the normal distribution: a lower
threshold alarms at every burst."""
WIDEST = 1e150
"""Values further from zero are learned as this, so that no square overflows."""

_FINEST = 1e-9
"""Share of the expected value below which a standard deviation is rounding."""


def predictions(values: Floats, expected: Floats, deviation: Floats) -> pl.DataFrame:
    """Make `protocol.PREDICTION` of the values, what was expected (NaN for unknown) and the standard deviation (too).

    The score is `z^4 / (z^4 + HALF_AT^4)`, where z is the value's distance in standard deviations. Values as usual get
    next to nothing (1: 0.004, 2: 0.06) and there is room for the very unusual (8: 0.94, 20: 0.998), while the normal
    distribution's own tail would spread the usual ones evenly from 0 to 1 and find all others alike.
    """
    spread = np.maximum(deviation, _FINEST * np.abs(expected))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        inverse = HALF_AT * spread
        inverse /= np.abs(values - expected)
        inverse *= inverse
        inverse *= inverse
        inverse += 1.0
        score = 1.0 / inverse
    # Not a number where nothing is known, and where a value is as expected of a metric that never changed.
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
