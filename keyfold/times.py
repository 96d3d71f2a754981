"""Times: as people and records write them, and as whole microseconds for work on arrays."""

import re
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt
import polars as pl

from keyfold.errors import Misconfigured

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
"""1970: time zero, and the watermark before any event was seen."""

BEGINNING = datetime(1, 1, 1, tzinfo=UTC)
"""The first time that there is: the watermark before any event was seen."""

END = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
"""The last time that there is."""

ISO_FORMAT = "%Y-%m-%dT%H:%M:%S%.6fZ"
"""How columns of UTC times become text (Polars' `strftime`): ISO 8601 with microseconds, which `from_iso` reads."""

Micros = npt.NDArray[np.int64]


def micros(value: datetime | timedelta) -> int:
    """Microseconds of a span, or of a time since 1970 (UTC)."""
    span = value - EPOCH if isinstance(value, datetime) else value
    return span // timedelta(microseconds=1)


def from_micros(value: int) -> datetime:
    """The UTC time that is so many microseconds past 1970; outside the calendar, its first moment or its last."""
    return shifted(EPOCH, timedelta(microseconds=int(value)))


def shifted(time: datetime, span: timedelta) -> datetime:
    """A UTC time and a span together; what would lie outside the calendar is its first moment, or its last.

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
    """A time in UTC; what would lie outside the calendar there is its first moment, or its last."""
    try:
        return time.astimezone(UTC)
    except OverflowError:
        return BEGINNING if time.year == BEGINNING.year else END


def to_micros(times: pl.Series) -> Micros:
    """Microseconds since 1970 (UTC) of a column of times without gaps."""
    return times.to_physical().to_numpy()


def to_times(values: Micros) -> pl.Series:
    """UTC times of microseconds since 1970."""
    return pl.Series(values).cast(pl.Datetime("us", "UTC"))


def to_iso(time: datetime) -> str:
    """A time as text, as `ISO_FORMAT` writes a column of them.

    Example:
        >>> to_iso(EPOCH)
        '1970-01-01T00:00:00.000000Z'
    """
    # Not by strftime, which writes the years before 1000 in fewer digits.
    return time.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def from_iso(text: str) -> datetime:
    """The UTC time of an ISO 8601 text; UTC where it has no offset.

    Raises:
        ValueError: it is none.
    """
    time = datetime.fromisoformat(text)
    return in_utc(time) if time.tzinfo else time.replace(tzinfo=UTC)


def parse_time(name: str, text: str | None) -> datetime | None:
    """An ISO 8601 time that was given for `name`, UTC where it has no offset; None where nothing was given.

    Raises:
        KeyfoldError: it is no ISO 8601 time, or finer than a microsecond.
    """
    if text is None:
        return None
    # Python's reader cuts further digits in silence.
    if re.search(r"[.,]\d{6}\d*[1-9]", text):
        raise Misconfigured(
            f"{name} is {text!r}, which is finer than a microsecond; give six digits of a second at most"
        )
    try:
        return from_iso(text)
    except ValueError:
        raise Misconfigured(f"{name} is {text!r}; give an ISO 8601 time, such as 2026-01-31T12:00:00Z") from None
