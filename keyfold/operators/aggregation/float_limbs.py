"""Cut floats into whole numbers that are summed exactly, for operators that have events in memory.

`parts` does the same by expressions, which can be part of an event table; this takes a quarter of their time.
"""

import numpy as np
import polars as pl
from numpy.typing import NDArray

BITS, LOWEST, HIGHEST = 32, -31, 31
"""A scale of floats is a power of 2**32; the lowest and the highest of them."""

NOT_FINITE = HIGHEST + 3
"""The scale of values that are not finite: so high that nothing of another value is added to their numbers."""

# By the scale, from the lowest; the last is of values that are not finite.
_INVERSE_UNITS = np.array([*(2.0 ** (-BITS * scale) for scale in range(LOWEST, HIGHEST + 1)), 0.0])
_SCALES = np.array([*range(LOWEST, HIGHEST + 1), NOT_FINITE])

_CHUNK = 8192
"""Number of values cut at a time: of more, most of the time would be spent on fresh memory."""


def scale_and_limbs(values: pl.Series) -> list[pl.Series]:
    """Return the scale and the three limbs of each float, as `parts` has them of a sum; of NULL the limbs are 0.

    Example:
        >>> [part.to_list() for part in scale_and_limbs(pl.Series([1.5, None, float("inf")]))]
        [[0, None, 34], [1, 0, 1], [2147483648, 0, 0], [0, 0, 0]]
    """
    missing = values.is_null() if values.null_count() else None
    floats = values.to_numpy() if missing is None else np.where(missing.to_numpy(), 0.0, values.to_numpy())
    parts = np.empty((4, floats.size), np.int64)
    for start in range(0, floats.size, _CHUNK):
        some = slice(start, start + _CHUNK)
        _cut(floats[some], parts[:, some])
    scale, *limbs = map(pl.Series, parts)
    return [scale if missing is None else scale.set(missing, None), *limbs]


def _cut(floats: NDArray[np.float64], parts: NDArray[np.int64]) -> None:
    """Fill in the scale and the limbs of floats."""
    scale, *limbs = parts
    place = _place(floats)
    scale[:] = _SCALES[place]
    is_finite = place < _SCALES.size - 1
    rest = floats if is_finite.all() else np.where(is_finite, floats, 0.0)
    rest = rest * _INVERSE_UNITS[place]
    for limb in limbs:
        whole = np.trunc(rest)
        limb[:] = whole
        # Exact: no bit of the remainder is lost.
        rest = (rest - whole) * 2.0**BITS
    if not is_finite.all():
        # Of values that are not finite, their numbers.
        for limb, is_of_kind in zip(limbs, (floats == np.inf, floats == -np.inf, np.isnan(floats)), strict=True):
            limb[is_of_kind] = 1


def _place(floats: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the place of each float's scale, by the bits of its exponent."""
    exponent = (floats.view(np.int64) >> 52 & 0x7FF) - 1023
    return np.maximum((exponent - BITS * LOWEST) // BITS, 0)
