"""Read times in the formats and the zone that a stream declares, exactly or not at all."""

from collections.abc import Sequence

import polars as pl

from keyfold.exact_cast import whole_numbers
from keyfold.stream.source import ISO, TIME_UNITS
from keyfold.times import CALENDAR, exact_times, in_zone, nanoseconds_beyond

_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_EXACT = pl.Decimal(38, 9)
_LAST = CALENDAR[1]
_DTYPE = pl.Datetime("us", "UTC")
_HAS_ZONE = r"(?:[Zz]|[+-]\d\d(?::?\d\d)?)\s*$"


def read_times(values: pl.Series, formats: Sequence[str] = (), zone: str = "UTC") -> pl.Series:
    """Return UTC times; NULL for a value in another format, finer than a microsecond, or of which two formats make different times.

    Args:
        values: texts, numbers, or times already, which need no format.
        formats: the formats, as in `Source.time`; none for ISO 8601.
        zone: the zone of times without one.

    Example:
        >>> read_times(pl.Series(["21/04/2023 16:17", "soon"]), ["%d/%m/%Y %H:%M"], "Europe/Berlin").to_list()
        [datetime.datetime(2023, 4, 21, 14, 17, tzinfo=zoneinfo.ZoneInfo(key='UTC')), None]
    """
    if values.dtype.is_temporal() or not formats:
        return exact_times(values, zone)
    first, *others = (exact_times(values, zone) if name == ISO else _parsed(values, name, zone) for name in formats)
    for other in others:
        is_unsure = (first != other).fill_null(value=False)
        first = first.zip_with(first.is_not_null(), other).set(is_unsure, None)
    return first


def count_without_zone(values: pl.Series, times: pl.Series, formats: Sequence[str] = ()) -> int:
    """Count the values that are times without a zone."""
    if values.dtype != pl.String:
        is_naive = isinstance(values.dtype, pl.Datetime) and values.dtype.time_zone is None
        return len(times) - times.null_count() if is_naive else 0
    if not formats or ISO in formats:
        # A text of which a format with `%` makes a time may count as well.
        has_zone = values.str.contains(_HAS_ZONE) | values.str.contains(r"^\s*[-+0-9.]+\s*$")
        return int((times.is_not_null() & ~has_zone).sum())
    naive = [name for name in formats if name not in TIME_UNITS and "%z" not in name]
    return len(times) - times.null_count() if naive else 0


def _parsed(values: pl.Series, name: str, zone: str) -> pl.Series:
    if name in TIME_UNITS:
        micros = _micros(values.fill_nan(None) if values.dtype.is_float() else values, name)
        # ISO 8601 has the years 1 to 9999.
        return micros.set(~micros.is_between(*CALENDAR), None).cast(_DTYPE)
    if values.dtype != pl.String:
        return pl.repeat(None, len(values), dtype=_DTYPE, eager=True)
    # Polars returns UTC for formats with an offset, and times without a zone for others.
    texts = values.str.strip_chars()
    times = texts.str.to_datetime(name, time_unit="us", strict=False)
    if "f" in name:
        nanos = texts.str.to_datetime(name, time_unit="ns", strict=False).to_physical()
        beyond = nanoseconds_beyond(times.to_physical().fill_null(0).to_numpy(), nanos.fill_null(0).to_numpy())
        times = times.set(pl.Series(beyond != 0), None)
    return in_zone(times, zone) if times.dtype == pl.Datetime("us") else times.cast(_DTYPE)


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
