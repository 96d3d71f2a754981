"""The keys of a job that are open: since when, until when, and how many events wait in their state."""

from collections.abc import Callable

import polars as pl
import pyarrow as pa

from keyfold.columns import column, passed_on
from keyfold.errors import IncompatibleState
from keyfold.keyed.job.clock import DEADLINE, STALE_AT
from keyfold.keyed.job.contract import KeyedJob
from keyfold.lakehouse import Lakehouse
from keyfold.state.reading.export import Export, write_table
from keyfold.state.reading.reader import StateRows

OPEN = "open"
"""The tables of open keys are `open.<job>`."""

_TIME = pa.timestamp("us", tz="UTC")


def open_schema(job: KeyedJob) -> pa.Schema:
    """The columns of a job's table of open keys, a row a key.

    Example:
        >>> from keyfold.keyed.job.parameters import build_job
        >>> from spark_jobs.jobs.registry import JOBS
        >>> open_schema(build_job(JOBS["ride_summaries"])).names
        ['ride_id', 'open_events', 'open_since', 'latest', 'deadline']
    """
    made_of = (job.event_time,)
    key = pa.schema([job.events.field(name) for name in job.key])
    # A derived column is made of what its declaration says; the others are the stream's own.
    fields = [
        job.events.field(name) if name in job.made_columns else passed_on(key)[at] for at, name in enumerate(key.names)
    ]
    waiting = "Events that no row of an output table stands for yet"
    fields.append(column("open_events", pa.int64(), waiting, made_of=made_of))
    if _times(job):
        fields += [
            column("open_since", _TIME, "The earliest time in the key's state", unit="UTC", made_of=made_of),
            column("latest", _TIME, "The latest time in the key's state", unit="UTC", made_of=made_of),
        ]
    if DEADLINE in job.state.names:
        meaning = "Event time at which the key is due next; NULL if no time closes it"
        fields.append(column(DEADLINE, _TIME, meaning, unit="UTC", made_of=made_of))
    if STALE_AT in job.state.names:
        meaning = "Processing time at which the key is due next; NULL if none is set"
        fields.append(column(STALE_AT, _TIME, meaning, unit="UTC", made_of=made_of))
    # As Delta has them: every column of its tables may be NULL here.
    return pa.schema([field.with_nullable(True) for field in fields])


def open_keys(job: KeyedJob) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """The function that makes a row a key of the rows of a job's state.

    A key is open while its state stands for events (`KeyedJob.state_events`): what is kept as a marker or as a total
    alone is not. Of a job whose state never stands for any, every key that has state is open.
    """
    times, never_counts = _times(job), job.state_events.meta.eq(pl.lit(0))
    names, key, events = open_schema(job).names, job.key, job.state_events
    timers = [name for name in (DEADLINE, STALE_AT) if name in job.state.names]

    def summarize(rows: pl.DataFrame) -> pl.DataFrame:
        found = rows.group_by(key, maintain_order=True).agg(
            events.cast(pl.Int64).fill_null(0).alias("open_events"),
            *([pl.min_horizontal(pl.col(times).min()).alias("open_since")] if times else []),
            *([pl.max_horizontal(pl.col(times).max()).alias("latest")] if times else []),
            *(pl.col(name).min() for name in timers),
        )
        return (found if never_counts else found.filter(pl.col("open_events") > 0)).select(names)

    return summarize


def write_open_keys(lakehouse: Lakehouse, job: KeyedJob, rows: StateRows) -> Export:
    """Write the open keys of a state as a new version of the table `open.<job>`.

    Args:
        lakehouse: where the table is.
        job: whose parameters are those of the generation.
        rows: of its state, all keys.

    Raises:
        KeyfoldError: the state has other columns than the job, or is damaged; the table is as it was.

    Example:
        >>> rides = build_job(JOBS["ride_summaries"])  # doctest: +SKIP
        >>> write_open_keys(lakehouse, rides, read_state(spark, lakehouse, rides)).rows  # doctest: +SKIP
    """
    if rows.schema.names != job.state.names:
        raise IncompatibleState(
            f"{rows.where}: its state has the columns {', '.join(rows.schema.names)}, the job now {', '.join(job.state.names)}: "
            f"see `keyfold plan {job.name}`"
        )
    return write_table(rows, lakehouse.open_state(job.name), open_keys(job), open_schema(job))


def _times(job: KeyedJob) -> list[str]:
    """Columns of state that are times of events, or of what came of them."""
    return [field.name for field in job.state if field.type == _TIME and field.name not in (DEADLINE, STALE_AT)]
