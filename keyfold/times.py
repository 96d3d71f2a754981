"""Convert times between `datetime`, ISO 8601 text, and microseconds since 1970 (UTC) for work on arrays."""

import re
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt
import polars as pl

from keyfold.errors import Misconfigured

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
