"""What windows of event time are: spans of one length, which may overlap, or periods of the calendar in a time zone."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import polars as pl
from pydantic import AfterValidator

from keyfold.errors import Misconfigured, Unfit
from keyfold.times import EPOCH, as_duration, period_start
from keyfold.validation import declaration

WINDOW_START = "window_start"
"""The column with the start of a window."""

WINDOW_END = "window_end"
"""The column with the end of a window."""

IS_OPEN = "is_open"
"""The column that says whether the row of a window may still change since the window has not ended."""

PANE = "pane_start"
"""Column of events and state: the start of the pane, the time between two consecutive window starts.

All events of a pane are in the same windows, so state has one row per pane."""

Period = Literal["day", "week", "month", "quarter", "year"]
_PERIODS: dict[Period, str] = {"day": "1d", "week": "1w", "month": "1mo", "quarter": "1q", "year": "1y"}


def _iana_zone(name: str) -> str:
    # Asking Polars starts threads, which a fork after an import lacks: not for the usual one.
    if name == "UTC":
        return name
    try:
        ZoneInfo(name)
        # Polars lacks a few: `localtime`, `Factory`.
        pl.select(pl.lit(EPOCH).cast(pl.Datetime("us", "UTC")).dt.convert_time_zone(name))
    except (ZoneInfoNotFoundError, ValueError, OSError, TypeError, pl.exceptions.PolarsError):
        raise Unfit("not a time zone of the IANA database; give one such as UTC or Europe/Berlin") from None
    return name


TimeZone = Annotated[str, AfterValidator(_iana_zone)]
"""A time zone by its IANA name: `UTC`, `Europe/Berlin`."""


@declaration("calendar")
class Calendar:
    """Periods of the calendar in a time zone, as the length of windows (`windows(length=Calendar("day"))`).

    Weeks begin on Monday. A day has 23 or 25 hours when clocks are set. Where they go back over midnight (in St John's until 2010
    from 00:01 to 23:01), the day before goes on until the last midnight, with the minute after the first one in it.

    Attributes:
        period: `day`, `week`, `month`, `quarter` or `year`.
        zone: the time zone by its IANA name.

    Raises:
        Misconfigured: `period` is none of these, or `zone` is no time zone.

    Example:
        >>> from datetime import UTC, datetime
        >>> noon = pl.DataFrame({"at": [datetime(2026, 7, 1, 12, tzinfo=UTC)]})
        >>> noon.select(Calendar("month", "Europe/Berlin").start(pl.col("at"))).item().isoformat()
        '2026-06-30T22:00:00+00:00'
    """

    period: Period
    zone: TimeZone = "UTC"

    overlaps = False

    def start(self, time: pl.Expr) -> pl.Expr:
        """Return the start of the period of a time."""
        day = self._first_day(time)
        begin = self._begin(day)
        # Between two midnights of a day, clocks go back to the day before.
        return pl.when(begin <= time).then(begin).otherwise(self._begin(day.dt.offset_by(f"-{_PERIODS[self.period]}")))

    def end(self, start: pl.Expr) -> pl.Expr:
        """Return the end of the period with a start."""
        return self._begin(self._first_day(start).dt.offset_by(_PERIODS[self.period]))

    def start_of(self, end: pl.Expr) -> pl.Expr:
        """Return the start of the period with an end."""
        return self.start(end - timedelta(microseconds=1))

    def next_end(self, start: pl.Expr, watermark: pl.Expr) -> pl.Expr:
        """Return the end of the period with a start, as `Spans.next_end`."""
        return self.end(start)

    def _first_day(self, time: pl.Expr) -> pl.Expr:
        return time.dt.convert_time_zone(self.zone).dt.date().dt.truncate(_PERIODS[self.period])

    def _begin(self, day: pl.Expr) -> pl.Expr:
        """Return from when on the date is this day or later."""
        first, last = (self._at(day, midnight) for midnight in ("earliest", "latest"))
        is_repeated = (last - timedelta(microseconds=1)).dt.convert_time_zone(self.zone).dt.date() < day
        # A midnight that does not exist is taken as an hour after 23:00, which is the moment of the jump.
        hour_before = self._at(day, "earliest", timedelta(hours=1)) + timedelta(hours=1)
        return pl.when(is_repeated).then(last).otherwise(first).fill_null(hour_before).dt.convert_time_zone("UTC")

    def _at(self, day: pl.Expr, which: Literal["earliest", "latest"], before: timedelta = timedelta(0)) -> pl.Expr:
        """Return the first or last time at which clocks show the midnight of a day, or so long before; NULL if they never do."""
        shown = day.cast(pl.Datetime("us")) - before
        return shown.dt.replace_time_zone(self.zone, ambiguous=which, non_existent="null")


@dataclass(frozen=True)
class Spans:
    """Windows of one length, of which one begins each `every`, aligned to 1970-01-01 UTC.

    The time between two beginnings is a pane: all events of a pane are in the same windows.
    """

    length: timedelta
    every: timedelta

    @property
    def overlaps(self) -> bool:
        """Whether an event is in several windows."""
        return self.every != self.length

    def start(self, time: pl.Expr) -> pl.Expr:
        """Return the start of the pane of a time."""
        return period_start(time, self.every)

    def end(self, start: pl.Expr) -> pl.Expr:
        """Return the end of the last window of the pane with a start."""
        return start + self.length

    def start_of(self, end: pl.Expr) -> pl.Expr:
        """Return the start of the window with an end."""
        return end - self.length

    def next_end(self, start: pl.Expr, watermark: pl.Expr) -> pl.Expr:
        """Return the end of the first window of a pane that the watermark has not reached."""
        return pl.max_horizontal(start + self.every, period_start(watermark, self.every) + self.every)


Shape = Spans | Calendar
"""Panes of time, and the windows that they are in."""


def shape_of(job: str, length: timedelta | str | Calendar, every: timedelta | str | None) -> Shape:
    """Return the panes and windows of a job.

    Raises:
        Misconfigured: a length is none, or windows leave gaps; or there is `every` of the calendar.
    """
    if isinstance(length, Calendar):
        if every is not None:
            raise Misconfigured(
                f"job {job}: every is {every}; windows of the calendar follow one another: leave it out"
            )
        return length
    length = as_duration(f"job {job}: length", length)
    every = length if every is None else as_duration(f"job {job}: every", every)
    if not timedelta(0) < every <= length or length % every:
        raise Misconfigured(f"job {job}: every is {every}; length, {length}, must be a multiple of it")
    return Spans(length, every)
