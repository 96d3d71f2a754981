"""Times that are not ISO 8601, read as their stream says they are written, and passed on as ISO 8601."""

import polars as pl

from spark_jobs.streams.contract import TIME_UNITS
from spark_jobs.times import ISO_FORMAT

_MICROSECONDS = {"s": 1e6, "ms": 1e3, "us": 1.0}


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
    given = values.str.strip_chars() if values.dtype == pl.String else values
    if unit == "ns":
        # Whole: no float holds so many digits.
        micros = given.cast(pl.Int64, strict=False) // 1000
    else:
        micros = (given.cast(pl.Float64, strict=False) * _MICROSECONDS[unit]).round().cast(pl.Int64, strict=False)
    # Between the years 1 and 9999, which is what ISO 8601 can say.
    known = micros.is_between(-62_135_596_800_000_000, 253_402_300_799_999_999)
    return micros.set(~known, None).cast(pl.Datetime("us", "UTC"))
