"""Plays micro-batches to a job as an engine that restarts after each of them would, and counts its events each time."""

from collections.abc import Iterable
from datetime import datetime

import polars as pl

from spark_jobs.keyed.codec import decode, encode
from spark_jobs.keyed.contract import KeyedJob
from spark_jobs.keyed.rehearsal import Rehearsal


def play(job: KeyedJob, batches: Iterable[pl.DataFrame], end: datetime | None = None, parts: int = 1) -> Rehearsal:
    """Play batches, one without events, and (with an end) one more when event time has reached it.

    The state is written and read between batches; the job's combiner joins each batch in `parts` of it.
    """
    rehearsal, read = Rehearsal(job), 0
    for batch in [*batches, None]:
        read += 0 if batch is None else batch.height
        rehearsal.batch(None if batch is None else combined(job, batch, parts))
        restart(rehearsal)
        assert accounted_for(job, rehearsal) == read
    if end:
        rehearsal.advance_to(end)
        rehearsal.batch()
        restart(rehearsal)
        assert accounted_for(job, rehearsal) == read
    return rehearsal


def combined(job: KeyedJob, events: pl.DataFrame, parts: int) -> pl.DataFrame:
    """Apply the job's combiner, if it has one, as tasks of Spark would: each to its part."""
    if job.combine is None or not events.height:
        return events
    rows = -(-events.height // parts)
    pieces = [job.combine(events.slice(start, rows)) for start in range(0, events.height, rows)]
    return pl.concat([piece.select(events.columns) for piece in pieces])


def restart(rehearsal: Rehearsal) -> None:
    """Write the state down and read it again."""
    rehearsal.state = decode(encode(rehearsal.state))


def accounted_for(job: KeyedJob, rehearsal: Rehearsal) -> int:
    """How many events the rows in the job's tables and in its state stand for."""
    in_tables = sum(rehearsal.written[table.name].select(table.events).item() or 0 for table in job.tables)
    return in_tables + (rehearsal.state.select(job.state_events).item() or 0)


def merged(rehearsal: Rehearsal, job: KeyedJob, table: str) -> pl.DataFrame:
    """An upsert table as it stands after all that was written to it."""
    (found,) = (one for one in job.tables if one.name == table)
    key = list(found.key)
    return rehearsal.written[table].unique(key, keep="last").sort(key)
