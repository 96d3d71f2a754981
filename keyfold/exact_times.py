"""Parse times exactly, to microseconds. Values with more digits are not cut: they are invalid."""

import numpy as np
import polars as pl

from keyfold.times import BEGINNING, END, Micros, micros

_TIME = (
    r"^(?P<date>\d{4}-\d\d-\d\d)[Tt ](?P<hour>[01]\d|2[0-3])(?::(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d)"
    r"(?:[.,](?P<fraction>\d+))?)?)?(?:[Zz]|(?P<sign>[+-])(?P<ohour>[01]\d|2[0-3])(?::?(?P<ominute>[0-5]\d))?)?$"
)
CALENDAR = micros(BEGINNING), micros(END)
"""Range of valid times in microseconds since 1970: the years 1 to 9999, which both Spark and Python can represent."""

_DAY = 86_400_000_000


def exact_times(given: pl.Series) -> pl.Series:
    """Convert values to UTC times of whole microseconds; NULL for a value that is not exactly one.

    A time without a zone is read as UTC, a date as its midnight. Text must be ISO 8601 with at least an hour; digits of the
    fraction after the sixth must be zero. Times outside the years 1 to 9999 are invalid, and so are numbers: they have no unit.

    Example:
        >>> texts = pl.Series(["2026-01-31T12:00:00.123456000Z", "2026-01-31T12:00:00.1234567Z"])
        >>> exact_times(texts).dt.microsecond().to_list()
        [123456, None]
    """
    times, is_finer = _times(given)
    return times.set(is_finer, None)


def are_finer(given: pl.Series) -> pl.Series:
    """Return which values are times with digits below a microsecond."""
    times, is_finer = _times(given)
    return is_finer & times.is_not_null()


def nanoseconds_beyond(micros: Micros, nanos: Micros) -> Micros:
    """Return the nanoseconds of times below whole microseconds, given the same times in both units."""
    # Nanoseconds in 64 bits overflow outside the years 1678 to 2261. The product overflows alike, so the difference is right.
    with np.errstate(over="ignore"):
        return nanos - micros * np.int64(1000)


def _times(given: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Return the times, cut to microseconds, and which values were cut. The second is undefined where there is no time."""
    never = pl.repeat(value=False, n=len(given), dtype=pl.Boolean, eager=True)
    if isinstance(given.dtype, pl.Datetime):
        ticks = given.to_physical()  # UTC, with and without a zone
        if given.dtype.time_unit == "ns":
            return _in_calendar(ticks // 1000), (ticks % 1000 != 0).fill_null(value=False)
        if given.dtype.time_unit == "ms":
            ticks = ticks.set(~ticks.is_between(CALENDAR[0] // 1000, CALENDAR[1] // 1000), None) * 1000
        return _in_calendar(ticks), never
    if given.dtype == pl.Date:  # a typed date means its midnight; a text without an hour may be a cut time
        days = given.to_physical().cast(pl.Int64)
        return _in_calendar(days.set(days.abs() > CALENDAR[1] // _DAY, None) * _DAY), never
    if given.dtype != pl.String:
        return pl.repeat(None, len(given), dtype=pl.Datetime("us", "UTC"), eager=True), never
    parts = given.str.strip_chars().str.extract_groups(_TIME).struct.unnest()
    number = {
        name: parts[name].fill_null("0").cast(pl.Int64)
        for name in ("hour", "minute", "second", "ohour", "ominute")
    }  # fmt: skip
    fraction = parts["fraction"].fill_null("0")
    micros = fraction.str.head(6).str.pad_end(6, "0").cast(pl.Int64)
    offset = (number["ohour"] * 60 + number["ominute"]) * (1 - 2 * (parts["sign"].fill_null("+") == "-").cast(pl.Int64))
    minutes = number["hour"] * 60 + number["minute"] - offset
    days = parts["date"].str.to_date("%Y-%m-%d", strict=False).to_physical().cast(pl.Int64)
    times = _in_calendar(((days * 1440 + minutes) * 60 + number["second"]) * 1_000_000 + micros)
    return times, fraction.str.slice(6).str.contains("[1-9]")


def _in_calendar(micros: pl.Series) -> pl.Series:
    return micros.set(~micros.is_between(*CALENDAR), None).cast(pl.Datetime("us", "UTC"))
