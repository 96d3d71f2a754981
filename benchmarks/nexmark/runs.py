"""Runs of queries on a session, Spark's or what stands in for one: take files in, run the jobs, let all windows close."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import SparkSession

import keyfold
from benchmarks.nexmark.events import KINDS
from benchmarks.nexmark.queries import Query
from benchmarks.nexmark.streams import STREAMS
from keyfold import KeyedJob, Lakehouse
from keyfold.keyed.generation.run_mode import Incremental
from keyfold.keyed.runner import RunOptions
from keyfold.runs.jobs import JobRun
from keyfold.stream import INGESTED_AT


def take_in(spark: SparkSession, lakehouse: Lakehouse, files: Path, kinds: Iterable[str] = KINDS) -> int:
    """Ingest what is new in a folder of files; gives how many events it was."""
    return sum(keyfold.ingest(spark, lakehouse, STREAMS[kind], files / kind).accepted for kind in kinds)


def run_query(
    spark: SparkSession,
    lakehouse: Lakehouse,
    query: Query,
    *,
    close: datetime | None = None,
    options: RunOptions | None = None,
) -> list[JobRun]:
    """Run the jobs of a query over what is new.

    Args:
        spark, lakehouse, query: of the run.
        close: event time to which all windows are closed; of one that goes by arrival, a moment from now is.
        options: how the runs go about it.
    """
    modes = [Incremental(advance_to=_until(job, close)) for job in query.jobs]
    return [
        keyfold.run(spark, lakehouse, job, mode, options=options) for job, mode in zip(query.jobs, modes, strict=True)
    ]


def _until(job: KeyedJob, close: datetime | None) -> datetime | None:
    if close is None or job.time_from != INGESTED_AT:
        return close
    return datetime.now(UTC) + timedelta(minutes=1)
