"""Times that are not ISO 8601, read as their stream says they are written, and passed on as ISO 8601."""

import polars as pl

from keyfold.stream import TIME_UNITS
from keyfold.times import ISO_FORMAT
from keyfold.whole_numbers import whole_numbers

_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_EXACT = pl.Decimal(38, 9)
_LAST = 253_402_300_799_999_999


def to_iso_times(values: pl.Series, shape: str) -> pl.Series:
    """Times as text in ISO 8601; a value that is not of the shape stays as it is, so that a reason can show it.

    Args:
        values: raw values, text or numbers.
        shape: as `Source.time` has it.

    Example:
        >>> to_iso_times(pl.Series(["21/04/2023 16:17", "soon"]), "%d/%m/%Y %H:%M").to_list()
        ['2023-04-21T16:17:00.000000Z', 'soon']
        >>> to_iso_times(pl.Series([1682093829.5]), "s").to_list()
        ['2023-04-21T16:17:09.500000Z']
    """
    raw = values if values.dtype == pl.String else values.cast(pl.String)
    times = parse_times(values, shape).dt.strftime(ISO_FORMAT)
    return times.zip_with(times.is_not_null(), raw)


def parse_times(values: pl.Series, shape: str) -> pl.Series:
    """Times (UTC, microseconds); NULL for what is not of the shape."""
    if shape in TIME_UNITS:
        return _since_1970(values, shape)
    dtype = pl.Datetime("us", "UTC")
    if values.dtype != pl.String:
        return pl.repeat(None, len(values), dtype=dtype, eager=True)
    # With an offset Polars gives UTC, and without one a time of no zone, which is taken as UTC as everywhere.
    times = values.str.strip_chars().str.to_datetime(shape, time_unit="us", strict=False)
    return times.dt.replace_time_zone("UTC") if times.dtype == pl.Datetime("us") else times.cast(dtype)


def _since_1970(values: pl.Series, unit: str) -> pl.Series:
    micros = _micros(values, unit)
    # Between the years 1 and 9999, which is what ISO 8601 can say.
    known = micros.is_between(-62_135_596_800_000_000, _LAST)
    return micros.set(~known, None).cast(pl.Datetime("us", "UTC"))


def _micros(values: pl.Series, unit: str) -> pl.Series:
    """Whole microseconds, rounded; exact for integers, text and decimals. NULL where a float is too coarse to say."""
    if unit == "ns":
        return whole_numbers(values, pl.Int64()) // 1000
    factor = _MICROSECONDS[unit]
    if values.dtype.is_float():
        whole = whole_numbers(values, pl.Int64())
        rounded = whole_numbers((values.cast(pl.Float64) * factor).round(), pl.Int64())
        return _times(whole, factor).zip_with(whole.is_not_null(), rounded)
    if values.dtype.is_integer():
        return _times(whole_numbers(values, pl.Int64()), factor)
    texts = values.str.strip_chars() if values.dtype == pl.String else values
    return (texts.cast(_EXACT, strict=False) * factor).round().cast(pl.Int64, strict=False)


def _times(counts: pl.Series, factor: int) -> pl.Series:
    """The product; NULL beyond the year 9999, before a product could overflow."""
    return counts.set(counts.abs() > _LAST // factor, None) * factor
