"""Number the calendar days of a time zone (days since 1970-01-01), with the moment at which each begins."""

from calendar import isleap
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt
from pydantic import AfterValidator

from keyfold.times import EPOCH, from_micros, in_utc, micros

Numbers = npt.NDArray[np.int64]

_DAY = micros(timedelta(days=1))


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
        >>> night = micros(datetime(2026, 3, 29, 22, 30, tzinfo=UTC))
        >>> berlin = days_around(night, night, "Europe/Berlin")
        >>> int(berlin.of(np.array([night]))[0]) == night // _DAY + 1
        True
    """
    # Every zone's offset is less than a day. One more day is needed for the end of the last.
    first, last = earliest // _DAY - 2, latest // _DAY + 3
    if zone == "UTC":
        return Days(first, np.arange(first, last + 1) * _DAY)
    years = range(from_micros(first * _DAY).year, from_micros(last * _DAY).year + 1)
    begins = np.concatenate([_year(zone, year) for year in years])
    return Days((datetime(years[0], 1, 1, tzinfo=UTC) - EPOCH).days, begins)


@lru_cache(maxsize=1024)
def _year(zone: str, year: int) -> Numbers:
    """Return when the days of a year begin."""
    there = ZoneInfo(zone)
    begins = []
    for day in range(366 if isleap(year) else 365):
        midnight = datetime(year, 1, 1) + timedelta(days=day)  # noqa: DTZ001 - of the zone's own clocks
        # A midnight that does not exist is taken with the offset before it, which gives the moment of the jump.
        begins.append(micros(in_utc(midnight.replace(tzinfo=there))))
    return np.array(begins, dtype=np.int64)


def _known_zone(name: Any) -> Any:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("not a time zone of the IANA database; give one such as UTC or Europe/Berlin") from None
    return name


TimeZone = Annotated[str, AfterValidator(_known_zone)]
"""A time zone by its IANA name: `UTC`, `Europe/Berlin`."""
