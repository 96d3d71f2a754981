"""Average each value with those before it in its run, so that a mean depends only on the values of its window."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Positions = npt.NDArray[np.int64]

_CHUNK = 32_768
"""Number of values processed at a time, so that they fit a processor's cache."""


def trailing_means(values: Floats, position: Positions, length: int) -> Floats:
    """Average each value with those before it in its run, up to `length` values.

    A window is summed as a tree of blocks of 1, 2, 4, … values, whose shape depends only on `length`. So an average depends
    only on its window, unlike a running sum with subtraction. It takes about 2 log2(length) additions per value, and its
    rounding error grows with the tree's height, not with `length`.

    Args:
        values: values, run after run; NaN marks a missing value, which averages ignore.
        position: the position of each value in its run, from 0.
        length: the length of a window, at least 1.

    Returns:
        One average per value; NaN if all values of its window are missing.
    """
    means = np.empty(len(values))
    chunk = max(_CHUNK, 4 * length)
    for start in range(0, len(values), chunk):
        begin = max(0, start - length + 1)
        part = slice(begin, start + chunk)
        means[start : start + chunk] = _means(values[part], position[part], length)[start - begin :]
    return means


def _means(values: Floats, position: Positions, length: int) -> Floats:
    is_missing = np.isnan(values)
    with np.errstate(invalid="ignore", over="ignore"):
        if not is_missing.any():
            return _sums(values, position, length) / np.minimum(position + 1, length)
        sums = _sums(np.where(is_missing, 0.0, values), position, length)
        return sums / _sums((~is_missing).astype(np.float64), position, length)


def _sums(values: Floats, position: Positions, length: int) -> Floats:
    total: Floats | None = None
    reach, size = 0, 1
    blocks = values
    while True:
        # The window is made of one block for each binary digit of its length.
        if length & size:
            total = blocks if total is None else _plus_earlier(total, blocks, reach, position)
            reach += size
        if reach == length:
            return np.asarray(total)
        blocks = _plus_earlier(blocks, blocks, size, position)
        size *= 2


def _plus_earlier(later: Floats, earlier: Floats, distance: int, position: Positions) -> Floats:
    """Add to each value of `later` the value of `earlier` at `distance` before it, if both belong to the same run."""
    if distance >= len(later):
        return later
    sums = np.empty_like(later)
    sums[:distance] = later[:distance]
    np.add(later[distance:], earlier[:-distance], out=sums[distance:])
    alone = np.flatnonzero(position < distance)
    sums[alone] = later[alone]
    return sums
