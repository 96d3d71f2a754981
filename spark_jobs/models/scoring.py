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
    known = ~np.isnan(deviation)
    spread = np.maximum(deviation, _FINEST * np.abs(expected))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        inverse = HALF_AT * spread / np.abs(values - expected)
        square = inverse * inverse
        score = 1.0 / (1.0 + square * square)
    as_expected = values == expected
    frame = pl.DataFrame(
        {
            "expected": np.where(known, expected, np.nan),
            "low": expected - BAND * spread,
            "high": expected + BAND * spread,
            "score": np.where(known & ~as_expected, score, 0.0),
        }
    )
    return frame.with_columns(pl.col("expected", "low", "high").fill_nan(None))
