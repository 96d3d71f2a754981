"""Parse times exactly, align them to periods, and convert them between `datetime`, ISO 8601 text, and microseconds since 1970 (UTC)
for work on arrays; and read lengths of time from text: `90s`, `30m`, `1.5h`, `1d`.
"""

import re
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt
import polars as pl

from keyfold.errors import Misconfigured, Unfit

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
"""1970-01-01 UTC: zero of times in microseconds."""

BEGINNING = datetime(1, 1, 1, tzinfo=UTC)
"""The first valid time, and the watermark before any event."""

END = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
"""The last valid time."""

ISO_FORMAT = "%Y-%m-%dT%H:%M:%S%.6fZ"
"""Format of UTC times as text, for Polars' `strftime`: ISO 8601 with microseconds, which `from_iso` reads."""

Micros = npt.NDArray[np.int64]


def micros(value: datetime | timedelta) -> int:
    """Return a time as microseconds since 1970 (UTC), or a span in microseconds."""
    span = value - EPOCH if isinstance(value, datetime) else value
    return span // timedelta(microseconds=1)


def from_micros(value: int) -> datetime:
    """Convert microseconds since 1970 to a UTC time; limited to `BEGINNING` and `END`."""
    return shifted(EPOCH, timedelta(microseconds=int(value)))


def shifted(time: datetime, span: timedelta) -> datetime:
    """Add a span to a UTC time; the result is limited to `BEGINNING` and `END`.

    Example:
        >>> shifted(EPOCH, timedelta(days=1)).isoformat()
        '1970-01-02T00:00:00+00:00'
        >>> shifted(END, timedelta(days=1)) == END
        True
    """
    try:
        return time + span
    except OverflowError:
        return BEGINNING if span < timedelta(0) else END


def in_utc(time: datetime) -> datetime:
    """Convert a time to UTC; the result is limited to `BEGINNING` and `END`."""
    try:
        return time.astimezone(UTC)
    except OverflowError:
        return BEGINNING if time.year == BEGINNING.year else END


def to_micros(times: pl.Series) -> Micros:
    """Convert a column of times without NULLs to microseconds since 1970 (UTC)."""
    return times.to_physical().to_numpy()


def to_times(values: Micros) -> pl.Series:
    """Convert microseconds since 1970 to a column of UTC times."""
    return pl.Series(values).cast(pl.Datetime("us", "UTC"))


def to_iso(time: datetime) -> str:
    """Format a time as text, as `ISO_FORMAT` does for a column.

    Example:
        >>> to_iso(EPOCH)
        '1970-01-01T00:00:00.000000Z'
    """
    # Not with strftime, which writes years before 1000 with fewer digits.
    return time.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def from_iso(text: str) -> datetime:
    """Parse an ISO 8601 text as a UTC time; a text without an offset is UTC.

    Raises:
        ValueError: the text is not ISO 8601.
    """
    time = datetime.fromisoformat(text)
    return in_utc(time) if time.tzinfo else time.replace(tzinfo=UTC)


def parse_time(name: str, text: str | None) -> datetime | None:
    """Parse the ISO 8601 time of an option; a text without an offset is UTC, and None stays None.

    Args:
        name: name of the option, for errors.
        text: its value.

    Raises:
        KeyfoldError: the text is not ISO 8601, or is finer than a microsecond.
    """
    if text is None:
        return None
    # Python's parser drops further digits silently.
    if re.search(r"[.,]\d{6}\d*[1-9]", text):
        raise Misconfigured(
            f"{name} is {text!r}, which is finer than a microsecond; give six digits of a second at most"
        )
    try:
        return from_iso(text)
    except ValueError:
        raise Misconfigured(f"{name} is {text!r}; give an ISO 8601 time, such as 2026-01-31T12:00:00Z") from None


_TIME = (
    r"^(?P<date>\d{4}-\d\d-\d\d)[Tt ](?P<hour>[01]\d|2[0-3])(?::(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d)"
    r"(?:[.,](?P<fraction>\d+))?)?)?(?P<zone>[Zz]|(?P<sign>[+-])(?P<ohour>[01]\d|2[0-3])(?::?(?P<ominute>[0-5]\d))?)?$"
)
CALENDAR = micros(BEGINNING), micros(END)
"""Range of valid times in microseconds since 1970: the years 1 to 9999, which both Spark and Python can represent."""

_DAY = 86_400_000_000


def exact_times(values: pl.Series, zone: str = "UTC") -> pl.Series:
    """Convert values to UTC times of whole microseconds; NULL for a value that is not exactly one.

    A time without a zone is one of `zone`, where NULL is one that clocks show twice or never; a typed date is its midnight there. Text must be ISO 8601 with at least an hour; digits of the
    fraction after the sixth must be zero. Times outside the years 1 to 9999 are invalid, and so are numbers: they have no unit.

    Example:
        >>> texts = pl.Series(["2026-01-31T12:00:00.123456000Z", "2026-01-31T12:00:00.1234567Z"])
        >>> exact_times(texts).dt.microsecond().to_list()
        [123456, None]
    """
    times, is_finer, has_no_zone = _times(values)
    times = times.set(is_finer, None)
    if zone == "UTC" or not has_no_zone.any():
        return times
    return times.zip_with(~has_no_zone, in_zone(times.dt.replace_time_zone(None), zone))


def in_zone(times: pl.Series, zone: str) -> pl.Series:
    """Convert times without a zone, of whole microseconds, to UTC; NULL for one that the clocks of the zone show twice or never.

    Example:
        >>> in_zone(pl.Series([datetime(2026, 3, 29, 2, 30), datetime(2026, 3, 29, 3, 30)]), "Europe/Berlin").dt.hour().to_list()
        [None, 1]
    """
    if zone == "UTC":
        return times.dt.replace_time_zone("UTC")
    local = times.to_frame("time").select(
        pl.col("time").dt.replace_time_zone(zone, ambiguous="null", non_existent="null").dt.convert_time_zone("UTC")
    )
    return _in_calendar(local.to_series().to_physical())


def are_finer(values: pl.Series) -> pl.Series:
    """Return which values are times with digits below a microsecond."""
    times, is_finer, _ = _times(values)
    return is_finer & times.is_not_null()


def nanoseconds_beyond(micros: Micros, nanos: Micros) -> Micros:
    """Return the nanoseconds of times below whole microseconds, given the same times in both units."""
    # Nanoseconds in 64 bits overflow outside the years 1678 to 2261. The product overflows alike, so the difference is right.
    with np.errstate(over="ignore"):
        return nanos - micros * np.int64(1000)


def _times(values: pl.Series) -> tuple[pl.Series, pl.Series, pl.Series]:
    """Return the times, cut to microseconds, which values were cut, and which have no zone; the latter undefined without a time."""
    never = pl.repeat(value=False, n=len(values), dtype=pl.Boolean, eager=True)
    if isinstance(values.dtype, pl.Datetime):
        ticks, has_no_zone = values.to_physical(), ~never if values.dtype.time_zone is None else never
        if values.dtype.time_unit == "ns":
            return _in_calendar(ticks // 1000), (ticks % 1000 != 0).fill_null(value=False), has_no_zone
        if values.dtype.time_unit == "ms":
            ticks = ticks.set(~ticks.is_between(CALENDAR[0] // 1000, CALENDAR[1] // 1000), None) * 1000
        return _in_calendar(ticks), never, has_no_zone
    if values.dtype == pl.Date:  # a typed date means its midnight; a text without an hour may be a cut time
        days = values.to_physical().cast(pl.Int64)
        return _in_calendar(days.set(days.abs() > CALENDAR[1] // _DAY, None) * _DAY), never, ~never
    if values.dtype != pl.String:
        return pl.repeat(None, len(values), dtype=pl.Datetime("us", "UTC"), eager=True), never, never
    parts = values.str.strip_chars().str.extract_groups(_TIME).struct.unnest()
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
    return times, fraction.str.slice(6).str.contains("[1-9]"), parts["zone"].is_null()


def _in_calendar(micros: pl.Series) -> pl.Series:
    return micros.set(~micros.is_between(*CALENDAR), None).cast(pl.Datetime("us", "UTC"))


def period_start(time: pl.Expr, length: timedelta) -> pl.Expr:
    """Return the start of the period that a time is in; also for times before 1970."""
    microseconds = time.to_physical()
    return (microseconds - microseconds % micros(length)).cast(pl.Datetime("us", "UTC"))


def period_starts(time: pl.Expr, length: timedelta, every: timedelta) -> pl.Expr:
    """Return the starts of all periods that a time is in, as a list, earliest first.

    Of the periods that begin before the year 1, only the last is returned.

    Args:
        time: timestamps.
        length: length of a period; its end is exclusive.
        every: time between the starts of two periods, at most `length`.
    """
    microseconds, step = time.to_physical(), micros(every)
    ended = microseconds - micros(length)
    first = ended - ended % step + step
    # Starts before the calendar would all be limited to its beginning, and be the same key: keep only the last.
    first = pl.max_horizontal(first, _BEGINNING - _BEGINNING % step)
    return pl.int_ranges(first, microseconds + 1, step).cast(pl.List(pl.Datetime("us", "UTC")))


_BEGINNING = micros(BEGINNING)


_UNITS = {"s": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "d": "days"}

LONGEST = timedelta(days=365_000)
"""A thousand years: added to any time, the sum fits into 64 bits of microseconds."""

FORMS = "write a number and s, m, h or d, such as 90s, 30m, 1.5h or 1d"


def parsed_duration(text: str) -> timedelta | None:
    """Return the duration that a text says; None if it has another form.

    Raises:
        ValueError: it is longer than any may be.

    Example:
        >>> parsed_duration("1.5h")
        datetime.timedelta(seconds=5400)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|m|min|h|d)\s*", text)
    if match is None:
        return None
    try:
        return timedelta(**{_UNITS[match[2]]: float(match[1])})
    except OverflowError:
        raise ValueError(f"longer than any may be, which is {LONGEST.days:,} days") from None


def to_duration(value: timedelta | str) -> timedelta:
    """Convert a duration that is given as text or as itself.

    Raises:
        Unfit: the text says none, or it is negative.

    Example:
        >>> to_duration("1.5h")
        datetime.timedelta(seconds=5400)
    """
    try:
        duration = parsed_duration(value) if isinstance(value, str) else value
    except ValueError as error:
        raise Unfit(str(error)) from None
    if not isinstance(duration, timedelta):
        raise Unfit(FORMS)
    if duration < timedelta(0):
        raise Unfit("it must not be negative")
    return duration


def to_silence(value: timedelta | str) -> timedelta:
    """As `to_duration`, for a positive duration.

    Raises:
        Unfit: as there, or it is zero.
    """
    silence = to_duration(value)
    if not silence:
        raise Unfit("it must be positive")
    return silence


def as_duration(context: str, value: timedelta | str) -> timedelta:
    """As `to_duration`, for an argument of a function.

    Raises:
        Misconfigured: the text says none, or it is negative.
    """
    try:
        return to_duration(value)
    except Unfit as error:
        raise Misconfigured(f"{context} is {value if isinstance(value, timedelta) else repr(value)}: {error}") from None


def duration_text(duration: timedelta) -> str:
    """Format a duration so that it can be parsed: in the largest unit of which it is a whole number.

    Example:
        >>> duration_text(timedelta(minutes=90)), duration_text(timedelta(hours=2))
        ('90m', '2h')
    """
    for unit, name in (("d", "days"), ("h", "hours"), ("m", "minutes")):
        if duration % timedelta(**{name: 1}) == timedelta(0):
            return f"{duration // timedelta(**{name: 1})}{unit}"
    return f"{duration / timedelta(seconds=1):f}".rstrip("0").rstrip(".") + "s"
