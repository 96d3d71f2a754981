"""Say to which span of event time the rows of a job belong, and which events they depend on.

An operator whose rows depend on the events around a time says so with `RowTimes`, as the author of a step of one's own may. Then a span
can be computed again from its events alone (`runs.reprocess`), and a branch of a span can be compared with the live tables.
"""

from collections.abc import Sequence
from dataclasses import field
from datetime import datetime, timedelta
from typing import Any, Protocol

import polars as pl

from keyfold.keyed.job.tables import OutputTable
from keyfold.times import BEGINNING, END, in_utc, shifted, to_duration
from keyfold.validation import argument, declaration

_MOMENT = timedelta(microseconds=1)


class Periods(Protocol):
    """What times are divided into, such as windows."""

    def start(self, time: pl.Expr) -> pl.Expr:
        """Return the start of the period of a time."""
        ...

    def end(self, start: pl.Expr) -> pl.Expr:
        """Return the end of all that begins at the start of a period."""
        ...


def _to_times(value: Any) -> tuple[pl.Expr, ...]:
    values = value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
    return tuple(pl.col(time) if isinstance(time, str) else time for time in values)


@declaration("row_times")
class RowTimes:
    """The times of a job's rows: each row depends on events of its key between `before` before its time and `after` after it alone.

    An event at or after the watermark may belong to a row of state. An event that a row counts has the row's time, as `of_state` and
    `of_late` compute it.

    Attributes:
        of_rows: the time of a row of the job's tables: a column, or an expression. Of several, a table has the first whose columns it has.
        of_state: the same of a row of state; None if all rows that still wait for events are of no span.
        of_late: the same of a row of `late.<job>`; None for its event time.
        before, after: how long before and after the time of a row its first and last event may be, both inclusive.
        periods: windows that begin at the times of rows, in place of `after`.
        lateness: how long after its last event a row may still change.

    Raises:
        Misconfigured: a duration is negative, or none.

    Example:
        >>> from datetime import UTC
        >>> times = RowTimes("at", before="1h")
        >>> [time.hour for time in times.events_of(datetime(2026, 1, 31, 6, tzinfo=UTC), datetime(2026, 1, 31, 7, tzinfo=UTC))]
        [5, 7]
    """

    of_rows: tuple[pl.Expr, ...] = argument(converter=_to_times)
    of_state: pl.Expr | None = None
    of_late: pl.Expr | None = None
    before: timedelta = argument(converter=to_duration, default=timedelta(0))
    after: timedelta = argument(converter=to_duration, default=timedelta(0))
    periods: Any = field(default=None)
    lateness: timedelta = timedelta(0)

    def of_table(self, table: OutputTable) -> pl.Expr | None:
        """Return the time of a row of a table of the job; None if it lacks the columns, or its rows replace those of other times."""
        if table.role == "late":
            return self.of_late
        columns = table.key or table.schema.names
        times = self.of_rows if table.role == "own" else ()
        return next((time for time in times if set(time.meta.root_names()) <= set(columns)), None)

    def events_of(self, since: datetime | None, until: datetime | None) -> tuple[datetime | None, datetime | None]:
        """Return the span of the events that the rows of a span depend on."""
        first = None if since is None else shifted(in_utc(since), -self.before)
        return first, None if until is None else self._end(shifted(in_utc(until), -_MOMENT))

    def rows_of(self, since: datetime | None, until: datetime | None, time: pl.Expr) -> pl.Expr:
        """Return whether a row of a time depends on events of a span alone, the first inclusive, the second exclusive."""
        conditions = [pl.lit(value=True)]
        if since is not None:
            conditions.append(time >= shifted(in_utc(since), self.before))
        if until is not None and self.periods is None:
            conditions.append(time < shifted(in_utc(until), -self.after))
        elif until is not None:
            conditions.append(self.periods.end(self.periods.start(time)) <= in_utc(until))
        return pl.all_horizontal(conditions)

    def is_final(self, until: datetime | None, watermark: datetime) -> bool:
        """Whether no row before a time waits for events or may change, once the watermark has been reached."""
        return until is not None and shifted(self._end(shifted(in_utc(until), -_MOMENT)), self.lateness) <= watermark

    def _end(self, last: datetime) -> datetime:
        """Return the first time after all events of the rows up to a time."""
        if self.periods is None:
            return shifted(last, self.after + _MOMENT)
        if last >= END or last <= BEGINNING:
            return END
        time = pl.lit(last, pl.Datetime("us", "UTC"))
        return pl.select(pl.min_horizontal(self.periods.end(self.periods.start(time)), pl.lit(END))).item()


def within(time: pl.Expr, since: datetime | None, until: datetime | None) -> pl.Expr:
    """Return whether a time is in a span, the first inclusive, the second exclusive; false for no time.

    Example:
        >>> from datetime import UTC
        >>> noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
        >>> pl.select(within(pl.lit(noon), noon, None), other=within(pl.lit(noon), None, noon)).row(0)
        (True, False)
    """
    bounds = [] if since is None else [time >= in_utc(since)]
    bounds += [] if until is None else [time < in_utc(until)]
    return pl.all_horizontal(pl.lit(value=True), *bounds).fill_null(value=False)
