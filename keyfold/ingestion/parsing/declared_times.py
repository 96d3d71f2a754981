"""Convert times in a format that the stream declares to ISO 8601."""

import polars as pl

from keyfold.stream import TIME_UNITS
from keyfold.times import CALENDAR, ISO_FORMAT, nanoseconds_beyond
from keyfold.whole_numbers import whole_numbers

_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_EXACT = pl.Decimal(38, 9)
_LAST = CALENDAR[1]


def to_iso_times(values: pl.Series, shape: str) -> pl.Series:
    """Convert times to ISO 8601 text. A value in another format is returned unchanged, so that a reason can show it.

    Args:
        values: raw values, text or numbers.
        shape: the format, as in `Source.time`.

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
    """Parse times (UTC, microseconds); NULL for values in another format, or finer than a microsecond."""
    if shape in TIME_UNITS:
        return _since_1970(values, shape)
    dtype = pl.Datetime("us", "UTC")
    if values.dtype != pl.String:
        return pl.repeat(None, len(values), dtype=dtype, eager=True)
    # Polars returns UTC for formats with an offset, and naive times for others, which count as UTC.
    texts = values.str.strip_chars()
    times = texts.str.to_datetime(shape, time_unit="us", strict=False)
    if "f" in shape:
        nanos = texts.str.to_datetime(shape, time_unit="ns", strict=False).to_physical()
        beyond = nanoseconds_beyond(times.to_physical().fill_null(0).to_numpy(), nanos.fill_null(0).to_numpy())
        times = times.set(pl.Series(beyond != 0), None)
    return times.dt.replace_time_zone("UTC") if times.dtype == pl.Datetime("us") else times.cast(dtype)


def _since_1970(values: pl.Series, unit: str) -> pl.Series:
    micros = _micros(values, unit)
    # ISO 8601 has the years 1 to 9999.
    known = micros.is_between(*CALENDAR)
    return micros.set(~known, None).cast(pl.Datetime("us", "UTC"))


def _micros(values: pl.Series, unit: str) -> pl.Series:
    """Whole microseconds; NULL if a value is finer, or a float is too coarse to be exact."""
    if unit == "ns":
        nanos = whole_numbers(values, pl.Int64())
        return (nanos // 1000).set(nanos % 1000 != 0, None)
    factor = _MICROSECONDS[unit]
    if values.dtype.is_float():
        whole = whole_numbers(values, pl.Int64())
        floats = values.cast(pl.Float64)
        rounded = whole_numbers((floats * factor).round(), pl.Int64())
        # Accept a float only if it is the nearest float of a microsecond. NumPy divides; Polars multiplies by the inverse.
        nearest = rounded.cast(pl.Float64).to_numpy() / factor
        rounded = rounded.set(pl.Series(nearest != floats.to_numpy()), None)
        return _times(whole, factor).zip_with(whole.is_not_null(), rounded)
    if values.dtype.is_integer():
        return _times(whole_numbers(values, pl.Int64()), factor)
    texts = values.cast(pl.String).str.strip_chars()
    micros = texts.cast(_EXACT, strict=False) * factor
    is_finer = (micros != micros.round()) | texts.str.contains(r"\.[0-9]{9}[0-9]*[1-9]")
    return micros.cast(pl.Int64, strict=False).set(is_finer, None)


def _times(counts: pl.Series, factor: int) -> pl.Series:
    """Multiply counts by a factor; NULL for times after the year 9999, which also prevents overflow."""
    return counts.set(counts.abs() > _LAST // factor, None) * factor
