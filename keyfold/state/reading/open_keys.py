"""Write the table of a job's open keys: the events in their state, their times, and when they are due."""

from collections.abc import Callable

import polars as pl
import pyarrow as pa

from keyfold.columns import column, passed_on
from keyfold.errors import IncompatibleState
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.step import DEADLINE, STALE_AT
from keyfold.lakehouse import Lakehouse
from keyfold.state.reading.export import Export, write_table
from keyfold.state.reading.state_rows import StateRows

OPEN = "open"
"""Prefix of tables of open keys: `open.<job>`."""

_TIME = pa.timestamp("us", tz="UTC")


def open_schema(job: KeyedJob) -> pa.Schema:
    """Return the columns of a job's table of open keys, which has a row for each key.

    Example:
        >>> from keyfold.keyed.job.parameters import build_job
        >>> from spark_jobs.jobs.registry import JOBS
        >>> open_schema(build_job(JOBS["ride_summaries"])).names
        ['ride_id', 'open_events', 'open_since', 'latest', 'deadline']
    """
    made_of = (job.event_time,)
    key = pa.schema([job.events.field(name) for name in job.key])
    # A derived column has its declared lineage; the others are columns of the stream.
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
    # All columns of this Delta table are nullable.
    return pa.schema([field.with_nullable(True) for field in fields])


def open_keys(job: KeyedJob) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """Make the function that summarizes rows of a job's state, with a row for each open key.

    A key is open while its state has events (`KeyedJob.state_events`): a key with a marker or a total only is not. If a job's
    state never has events, every key with state is open.
    """
    times, never_counts = _times(job), job.state_events.meta.eq(pl.lit(0))
    names, key, events = open_schema(job).names, job.key, job.state_events
    timers = [name for name in (DEADLINE, STALE_AT) if name in job.state.names]

    def summarize(rows: pl.DataFrame) -> pl.DataFrame:
        summary = rows.group_by(key, maintain_order=True).agg(
            events.cast(pl.Int64).fill_null(0).alias("open_events"),
            *([pl.min_horizontal(pl.col(times).min()).alias("open_since")] if times else []),
            *([pl.max_horizontal(pl.col(times).max()).alias("latest")] if times else []),
            *(pl.col(name).min() for name in timers),
        )
        return (summary if never_counts else summary.filter(pl.col("open_events") > 0)).select(names)

    return summarize


def write_open_keys(lakehouse: Lakehouse, job: KeyedJob, rows: StateRows) -> Export:
    """Write the open keys of a state as a new version of the table `open.<job>`.

    Args:
        job: the job, with the parameters of the generation.
        rows: rows of its state, with all keys.

    Raises:
        KeyfoldError: the state has other columns than the job, or is damaged; the table is not changed.

    Example:
        >>> rides = build_job(JOBS["ride_summaries"])  # doctest: +SKIP
        >>> write_open_keys(lakehouse, rides, read_state(spark, lakehouse, rides)).rows  # doctest: +SKIP
    """
    if rows.schema.names != job.state.names:
        raise IncompatibleState(
            f"{rows.where}: its state has the columns {', '.join(rows.schema.names)}, the job now "
            f"{', '.join(job.state.names)}: see `keyfold plan {job.name}`"
        )
    return write_table(rows, lakehouse.open_state(job.name), open_keys(job), open_schema(job))


def _times(job: KeyedJob) -> list[str]:
    """Return the state's columns with event times; timers are left out."""
    return [field.name for field in job.state if field.type == _TIME and field.name not in (DEADLINE, STALE_AT)]
