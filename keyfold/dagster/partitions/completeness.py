"""Tell up to which time a job has written all rows of its main table, given its watermark.

Jobs say it that declare the times of their rows (`RowTimes`), as windows and joins do; and sessions, which are over `gap` after their
last event. Of all others only the author knows it (`Partitions.after`).
"""

from collections.abc import Callable
from datetime import datetime, timedelta

import polars as pl

from keyfold.dagster.partitions.declared import Partitions
from keyfold.errors import Misconfigured
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.operator_call import OperatorCall
from keyfold.keyed.job.row_times import RowTimes
from keyfold.keyed.job.timeouts import as_timeout
from keyfold.operators.aggregation.window_shapes import WINDOW_END
from keyfold.times import END, EPOCH, shifted

_TIME, _MOMENT = pl.Datetime("us", "UTC"), timedelta(microseconds=1)

Written = Callable[[datetime], datetime]
"""Returns of a watermark the time before which all rows are written."""


def rows_written(subject: str, job: KeyedJob, partitions: Partitions) -> Written:
    """Return a function that gives, for a watermark, the time up to which in the column of partitions all rows are written.

    Rows that come later all the same are due to late events, or to a change of the table.

    Args:
        subject: names what declares the partitions, for errors.
        job: the job.
        partitions: the partitions of its main table.

    Raises:
        Misconfigured: the operator does not tell it of this column, and there is no `after`; or rows of the table move from one
            time to another.

    Example:
        >>> from spark_jobs.jobs.ride_summaries import RIDE_SUMMARIES
        >>> noon = datetime(2026, 1, 31, 12)
        >>> rows_written("", RIDE_SUMMARIES, Partitions("end_time"))(noon) - noon == timedelta(minutes=-30)
        True
    """
    column, call = partitions.column, job.operator
    partitions.check(subject, job.name, job.main.schema)
    if job.main.key and column not in (*job.main.key, WINDOW_END):
        raise Misconfigured(
            f"{subject}: partitions: a row of table {job.name} is replaced by one with another {column}, which takes it out of a "
            f"partition that was complete; name a column of its key: {', '.join(job.main.key)}"
        )
    if partitions.after is not None:
        return _behind(partitions.after)
    if job.row_times is not None and any(time.meta.eq(pl.col(column)) for time in job.row_times.of_rows):
        return _by_row_times(job.row_times)
    written = _by_operator(job, call, column) if call is not None else None
    if written is None:
        raise Misconfigured(
            f"{subject}: partitions: how long after a time in {column} the job may still write its row is not known of "
            f"{'a step' if call is None else f'{call.name} and this column'}; give Partitions(after=…), such as 0s for a row that "
            "is written when its event comes"
        )
    return written


def _behind(wait: timedelta) -> Written:
    return lambda watermark: shifted(watermark, -wait)


def _by_operator(job: KeyedJob, call: OperatorCall, column: str) -> Written | None:
    arguments = call.arguments
    if call.name == "windows" and column == WINDOW_END:
        return _behind(timedelta(0))
    if call.name == "sessions" and (gap := as_timeout(f"job {job.name}: gap", arguments["gap"])).in_event_time:
        aggregate, while_ = arguments["of"].get(column), arguments["while_"]
        if column == WINDOW_END and arguments["until"] is None and while_ is None:
            return _behind(timedelta(0))
        # The first event of a session tells nothing: it may go on for ever.
        if aggregate is not None and aggregate.column == job.event_time and aggregate.kind in ("max", "last"):
            return _behind(gap.after + (while_.pause if while_ is not None else timedelta(0)))
    return None


def _by_row_times(times: RowTimes) -> Written:
    """Return of a watermark the time before which no row waits for an event."""
    periods = times.periods
    if periods is None:
        return _behind(times.after)

    def written(watermark: datetime) -> datetime:
        start = pl.select(periods.start(pl.lit(watermark, _TIME))).item()
        # Where windows overlap, those that began before may not be over either.
        while start > EPOCH and (times.events_of(None, start)[1] or END) > watermark:
            start = pl.select(periods.start(pl.lit(start - _MOMENT, _TIME))).item()
        return start

    return written
