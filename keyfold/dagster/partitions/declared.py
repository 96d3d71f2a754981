"""Declare the partitions of a job's table: hours, days, weeks or months of one of its columns, in a time zone."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from typing import Literal, NamedTuple

import dagster as dg
import pyarrow as pa

from keyfold.errors import Misconfigured, Unfit
from keyfold.operators.aggregation.window_shapes import TimeZone
from keyfold.stream import TIMESTAMP
from keyfold.times import to_duration
from keyfold.validation import argument, declaration, optional

Every = Literal["1h", "1d", "1w", "1mo"]

_LONGEST: Mapping[Every, timedelta] = {
    "1h": timedelta(hours=2),
    "1d": timedelta(days=2),
    "1w": timedelta(days=8),
    "1mo": timedelta(days=32),
}
"""No period is longer, also not one in which clocks go back."""

_EARLIEST = date(1973, 1, 1)
"""Since then, all time zones are ahead of UTC by whole quarters of an hour, in which rows are counted."""


class Period(NamedTuple):
    """A partition: its key in Dagster, and its span in UTC, which excludes `end`."""

    key: str
    start: datetime
    end: datetime


def _to_date(value: date | str) -> date:
    try:
        start = value if isinstance(value, date) else date.fromisoformat(value)
    except (TypeError, ValueError):
        raise Unfit("give a date, such as 2026-01-31") from None
    if start < _EARLIEST:
        raise Unfit(f"before {_EARLIEST}, the earliest that there may be")
    return start


@declaration("partitions by {column}")
class Partitions:
    """Partitions of a job's main table by time (`JobAssets(partitions=…)`), which are materialized when they are complete.

    A row is in the partition in which the time in `column` lies. A partition includes its start and excludes its end: a window that
    ends at midnight is in the day that begins then, if `column` is `window_end`, and in the day before, if it is `window_start`.

    Attributes:
        column: a column of the main table, a UTC timestamp.
        every: `1h`, `1d`, `1w` (weeks begin on Monday) or `1mo`.
        zone: the time zone by its IANA name. A day has 23 or 25 hours when clocks are set.
        start: the date of the first partition, also as text. Rows before it are in none.
        after: how long the watermark must be past the end of a partition until the job has written all its rows; also as text. By
            default what the operator says: nothing for windows, the gap for the last event of a session. Give it for other jobs.

    Raises:
        Misconfigured: `every` is none of these, `zone` is no time zone, `start` no date, or `after` no duration.

    Example:
        >>> days = Partitions("end_time", zone="Europe/Berlin", start="2026-03-01")
        >>> (day,) = days.periods(datetime(2026, 3, 29, 12, tzinfo=UTC), datetime(2026, 3, 29, 13, tzinfo=UTC))
        >>> day.key, day.end - day.start
        ('2026-03-29', datetime.timedelta(seconds=82800))
    """

    column: str
    every: Every = "1d"
    zone: TimeZone = "UTC"
    start: date = argument(converter=_to_date, default=date(2020, 1, 1))
    after: timedelta | None = argument(converter=optional(to_duration), default=None)

    @cached_property
    def definition(self) -> dg.TimeWindowPartitionsDefinition:
        """Dagster's partitions definition, which assets downstream can have too."""
        start = datetime(self.start.year, self.start.month, self.start.day)  # noqa: DTZ001 - of `zone`
        match self.every:
            case "1h":
                return dg.HourlyPartitionsDefinition(start, timezone=self.zone)
            case "1d":
                return dg.DailyPartitionsDefinition(start, timezone=self.zone)
            case "1w":
                return dg.WeeklyPartitionsDefinition(start, timezone=self.zone, day_offset=1)
            case "1mo":
                return dg.MonthlyPartitionsDefinition(start, timezone=self.zone)

    def periods(self, since: datetime, until: datetime) -> list[Period]:
        """Return the partitions that have a part of the span from `since` to `until`, oldest first."""
        definition = self.definition
        first = max(since, definition.start)
        # Dagster leaves out a partition that has begun before the span.
        keys = definition.get_partition_keys_in_time_window(dg.TimeWindow(first - _LONGEST[self.every], until))
        windows = ((key, definition.time_window_for_partition_key(key)) for key in keys)
        periods = (Period(key, window.start.astimezone(UTC), window.end.astimezone(UTC)) for key, window in windows)
        return [period for period in periods if period.end > first and period.start >= definition.start]

    def check(self, subject: str, table: str, schema: pa.Schema) -> None:
        """Check that a table has the column.

        Raises:
            Misconfigured: it has not, or the column is not a UTC timestamp.
        """
        if self.column not in schema.names:
            raise Misconfigured(
                f"{subject}: partitions: table {table} has no column {self.column}; it has {', '.join(schema.names)}"
            )
        if (kind := schema.field(self.column).type) != TIMESTAMP:
            raise Misconfigured(f"{subject}: partitions: column {self.column} is {kind}; it must be {TIMESTAMP}")
