"""Join the parts of consecutive rows: of ranges from a first to a last row, which may overlap."""

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from keyfold.keyed.rows.exact_sums import fitted
from keyfold.operators.aggregation.float_limbs import LOWEST, NOT_FINITE
from keyfold.operators.aggregation.parts import Join, Parts

Rows = NDArray[np.intp]
Numbers = NDArray[np.int64]

_NONE = np.iinfo(np.int64).min
_NO_SCALE = np.iinfo(np.int8).min


def ranges(first: Rows, last: Rows) -> tuple[Rows, Rows]:
    """Return the number of the range of each, and all rows from each first to its last."""
    lengths = last - first + 1
    place = np.repeat(np.arange(first.size), lengths)
    return place, np.arange(place.size) + (first - (np.cumsum(lengths) - lengths))[place]


def joined_ranges(
    parts: Parts, rows: pl.DataFrame, is_event: NDArray[np.bool_], first: Rows, last: Rows
) -> dict[str, pl.Series]:
    """Join the parts of an aggregate over ranges of rows.

    Args:
        parts: the parts.
        rows: their values of each row.
        is_event: whether a row is one event; others stand for several events before those that follow.
        first, last: the rows of each range.

    Raises:
        TotalTooLargeError: a sum overflows its column.
    """
    begin = first
    if parts.skips:
        if parts.skips == "first known":
            (level,) = parts.of("last known")
            begin = _first_known(rows[level], first, last)
        # What an event has with the one before it is not of the range that begins with it.
        begin = np.where(begin <= last, begin + np.append(is_event, False)[begin], begin)
    joined = dict[str, pl.Series]()
    for part in parts.parts:
        values = rows[part.name]
        match part.join:
            case "sum":
                joined[part.name] = range_sums(values, begin, last, fits=pl.Schema([part.column])[part.name])
            case "min" | "max":
                joined[part.name] = _extremes(values, first, last, part.join)
            case "first" | "last":
                joined[part.name] = values[first if part.join == "first" else last]
            case "last known":
                joined[part.name] = _last_known(values, first, last)
            case "scale":
                joined |= _float_sums(rows.select(part.name, *parts.of("limb")), begin, last)
            case "set" | "sorted" | "list":
                joined[part.name] = _lists(values, first, last, part.join)
            case "limb":
                pass
    return joined


def range_sums(values: pl.Series, first: Rows, last: Rows, fits: pl.DataType) -> pl.Series:
    """Sum whole numbers or decimals of ranges, exactly; a range may be empty.

    Raises:
        TotalTooLargeError: a sum does not fit into the type.
    """
    if fits == values.dtype == pl.Int64:
        numbers = _whole(values, 0)
        if _is_far_from_limits(numbers, first, last):
            return pl.Series(values.name, _between(numbers, first, last))
    whole = values.to_physical().cast(pl.Int128).fill_null(0)
    sums = _differences(whole.cum_sum(), first, last)
    if fits.is_decimal():
        # At 128 bits, sums of decimals may wrap around: they then differ from a sum of floats by 2**128, others by what floats round.
        about = _differences(whole.cast(pl.Float64).cum_sum(), first, last)
        is_right = (sums.cast(pl.Float64) - about).abs() < 1e38
        sums = sums.zip_with(is_right, pl.repeat(2**127 - 1, sums.len(), dtype=pl.Int128, eager=True))
    return fitted(sums.alias(values.name), fits)


def _whole(values: pl.Series, missing: int) -> NDArray[Any]:
    """Return whole numbers, with another in place of NULL."""
    return (values.fill_null(missing) if values.null_count() else values).to_numpy()


def _is_far_from_limits(numbers: Numbers, first: Rows, last: Rows) -> bool:
    """Tell whether no sum of a range overflows; what wraps around in between comes back."""
    # In Python's numbers, since the least has no absolute value in 64 bits.
    largest = max(-int(numbers.min(initial=0)), int(numbers.max(initial=0)))
    if largest * numbers.size < 2**62:
        return True
    return bool((np.abs(_between(numbers.astype(np.float64), first, last)) < 2.0**62).all())


def _between(values: NDArray[Any], first: Rows, last: Rows) -> NDArray[Any]:
    upto = np.zeros(values.size + 1, values.dtype)
    np.cumsum(values, out=upto[1:])
    return upto[last + 1] - upto[first]


def _differences(running: pl.Series, first: Rows, last: Rows) -> pl.Series:
    before = pl.concat([pl.Series([0], dtype=running.dtype).alias(running.name), running])
    return before.gather(last + 1) - before.gather(first)


def _float_sums(parts: pl.DataFrame, first: Rows, last: Rows) -> dict[str, pl.Series]:
    """Add the limbs of each range that belong to its greatest scale, as groups do (`combined_rows`)."""
    scale_name, *names = parts.columns
    # Scales are few small numbers: as bytes they are compared in an eighth of the time.
    scale = _whole(parts[scale_name], _NO_SCALE).astype(np.int8)
    # A negative scale is an index from the end, and its byte without a sign is the same index.
    occurs = np.zeros(256, dtype=bool)
    occurs[scale.view(np.uint8)] = True
    scales = [number for number in range(LOWEST, NOT_FINITE + 1) if occurs[number]]
    high, middle, low = (_whole(parts[name], 0) for name in names)
    greatest = range_max(scale, first, last, _NO_SCALE)
    limbs = np.zeros((3, first.size), np.int64)
    for top in scales:
        here = np.flatnonzero(greatest == top)
        if not here.size:
            continue
        if here.size == first.size:
            here = slice(None)
        begins, ends = first[here], last[here]
        for number, values in enumerate((high, middle, low)):
            aligned = values
            if top != scales[0]:
                # No row of these ranges has a greater scale: those of others are in both running sums of a difference.
                aligned = values * (scale >= top)
                for steps in range(1, number + 1):
                    if occurs[top - steps]:
                        aligned += (high, middle)[number - steps] * (scale == top - steps)
            # Running sums over all rows may wrap around; their differences are right.
            limbs[number, here] = _between(aligned, begins, ends)
    joined = pl.Series(scale_name, greatest.astype(np.int64))
    if (has_none := greatest == _NO_SCALE).any():
        joined = joined.set(pl.Series(has_none), None)
    return {scale_name: joined, **{name: pl.Series(name, limb) for name, limb in zip(names, limbs, strict=True)}}


def range_max(values: NDArray[Any], first: Rows, last: Rows, least: float = _NONE) -> NDArray[Any]:
    """Return the greatest value of each range; `least` for an empty one.

    Blocks of 1, 2, 4, … values are compared, of which two cover a range.
    """
    greatest = np.full(first.size, least, values.dtype)
    lengths = last - first + 1
    size, blocks = 1, values
    while (lengths >= size).any():
        here = np.flatnonzero((lengths >= size) & (lengths < 2 * size))
        greatest[here] = np.maximum(blocks[first[here]], blocks[last[here] - size + 1])
        blocks = np.maximum(blocks[:-size], blocks[size:])
        size *= 2
    return greatest


def _extremes(values: pl.Series, first: Rows, last: Rows, join: Join) -> pl.Series:
    """Return the least or greatest value of each range, as Polars does of a group: NaN only if there is no other value."""
    if values.dtype.is_float():
        return _float_extremes(values, first, last, join)
    place = np.empty(values.len(), np.int64)
    order = values.arg_sort(descending=join == "min").to_numpy()
    place[order] = np.arange(values.len())
    place[values.is_null().to_numpy()] = _NONE
    best = range_max(place, first, last)
    row = pl.Series(np.append(order, 0)[np.where(best == _NONE, -1, best)], dtype=pl.Int64)
    return values.gather(row.set(pl.Series(best == _NONE), None))


def _float_extremes(values: pl.Series, first: Rows, last: Rows, join: Join) -> pl.Series:
    is_there = values.is_not_null().to_numpy()
    numbers, sign = values.fill_null(0.0).to_numpy(), -1 if join == "min" else 1
    is_number = is_there & ~np.isnan(numbers)
    best = sign * range_max(np.where(is_number, sign * numbers, -np.inf), first, last, -np.inf)
    has_number, has_any = (_between(flags.astype(np.int64), first, last) > 0 for flags in (is_number, is_there))
    extremes = pl.Series(values.name, np.where(has_number, best, np.nan), dtype=values.dtype)
    return extremes.set(pl.Series(~has_any), None)


def _first_known(values: pl.Series, first: Rows, last: Rows) -> Rows:
    """Return the first row of each range that has a value; the row after its last if none has."""
    index = np.arange(values.len())
    rows_with_value = np.where(values.is_not_null().to_numpy(), index, values.len())
    following = np.minimum.accumulate(rows_with_value[::-1])[::-1]
    return np.minimum(following[first], last + 1)


def _last_known(values: pl.Series, first: Rows, last: Rows) -> pl.Series:
    """Return the last value of each range that is known."""
    rows_with_value = np.where(values.is_not_null().to_numpy(), np.arange(values.len()), -1)
    row = np.maximum.accumulate(rows_with_value)[last]
    return values.gather(pl.Series(row, dtype=pl.Int64).set(pl.Series(row < first), None))


def _lists(lists: pl.Series, first: Rows, last: Rows, join: Join) -> pl.Series:
    """Return what the lists of each range have together."""
    place, rows = ranges(first, last)
    values = pl.DataFrame({"range": place, "value": lists.gather(rows)})
    together = pl.col("value")
    if join == "set":
        together = together.drop_nulls().unique()
    together = together if join == "list" else together.sort()
    several = (
        values.explode("value", empty_as_null=False, keep_nulls=False)
        .group_by("range", maintain_order=True)
        .agg(together)
    )
    every = pl.DataFrame({"range": np.arange(first.size)}).join(several, on="range", how="left", maintain_order="left")
    return every["value"].fill_null([]).alias(lists.name)
