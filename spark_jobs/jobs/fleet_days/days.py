"""Number the calendar days of a time zone (days since 1970-01-01), with the moment at which each begins."""

from datetime import timedelta
from typing import Annotated, Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt
import polars as pl
from pydantic import AfterValidator

from keyfold.times import micros

Numbers = npt.NDArray[np.int64]

_HOUR, _DAY = micros(timedelta(hours=1)), micros(timedelta(days=1))


class Days(NamedTuple):
    """Consecutive days.

    Attributes:
        first: number of the first day.
        begins: when each day begins, in microseconds since 1970; if clocks are set at midnight, the day's first moment.
    """

    first: int
    begins: Numbers

    def of(self, times: Numbers) -> Numbers:
        """Return the day of each time (in microseconds); the moment at which a day begins belongs to that day."""
        return self.first + np.searchsorted(self.begins, times, side="right") - 1

    def begin(self, days: Numbers) -> Numbers:
        """Return when days begin."""
        return self.begins[days - self.first]


def days_around(earliest: int, latest: int, zone: str) -> Days:
    """Return the days of a zone from `earliest` to `latest`, and some days before and after.

    Example:
        >>> from datetime import UTC, datetime
        >>> night = micros(datetime(2026, 3, 29, 22, 30, tzinfo=UTC))
        >>> berlin = days_around(night, night, "Europe/Berlin")
        >>> int(berlin.of(np.array([night]))[0]) == night // _DAY + 1
        True
    """
    # Every zone's offset is less than a day. One more day is needed for the end of the last.
    days = np.arange(earliest // _DAY - 2, latest // _DAY + 4)
    begins, hour_before = (_moments(days * _DAY - before, zone) for before in (0, _HOUR))
    # A midnight that does not exist is taken as an hour after 23:00, which is the moment of the jump.
    return Days(int(days[0]), begins.fill_null(hour_before + _HOUR).to_numpy())


def _moments(clock: Numbers, zone: str) -> pl.Series:
    """Return when clocks of the zone first show these times; NULL if they never do."""
    shown = pl.Series(clock).cast(pl.Datetime("us"))
    return shown.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null").to_physical()


def _known_zone(name: Any) -> Any:
    try:
        ZoneInfo(name)
        # Polars lacks a few: `localtime`, `Factory`.
        days_around(0, 0, name)
    except (ZoneInfoNotFoundError, ValueError, OSError, pl.exceptions.PolarsError):
        raise ValueError("not a time zone of the IANA database; give one such as UTC or Europe/Berlin") from None
    return name


TimeZone = Annotated[str, AfterValidator(_known_zone)]
"""A time zone by its IANA name: `UTC`, `Europe/Berlin`."""
