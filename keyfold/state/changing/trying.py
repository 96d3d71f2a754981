"""A changed job tried on all of history beside the live one, and late events read again in their place."""

from dataclasses import dataclass
from datetime import datetime

import polars as pl
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from keyfold.errors import NotFound
from keyfold.keyed.generation.generations import Generation, branch_folder, live_generation
from keyfold.keyed.generation.run_mode import Replay
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.runner import RunOptions, RunSummary, run_job
from keyfold.lakehouse import Lakehouse, read_json
from keyfold.lakehouse.frames import table_frame
from keyfold.state.differences.comparing import TableDifference, compare_outputs


@dataclass(frozen=True)
class Trial:
    """What a job makes of history, beside what is live.

    Attributes:
        job, branch: that was tried, and where.
        live: the generation it is compared with.
        run: what the replay did.
        tables: how each table differs from the live one.
    """

    job: str
    branch: str
    live: str
    run: RunSummary
    tables: tuple[TableDifference, ...]


@dataclass(frozen=True)
class Redrive:
    """What the outputs would be with the events that came late.

    Attributes:
        trial: all of history, read anew in order of event time.
        late_before: late events of the live generation, since the time that was asked for.
        late_after: events that are late still: by the job's own rule, or of before that time.
    """

    trial: Trial
    late_before: int
    late_after: int


def try_job(
    spark: SparkSession,
    lakehouse: Lakehouse,
    job: KeyedJob,
    branch: str,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    options: RunOptions | None = None,
) -> Trial:
    """Run a job over history into a branch, and compare its tables with the live ones.

    Raises:
        KeyfoldError: nothing is live that it could be compared with, or as `run_job`.
    """
    live = _live(lakehouse, job)
    run = run_job(spark, lakehouse, job, Replay(branch, since, until), options=options)
    return Trial(job.name, branch, live.name, run, compare_outputs(spark, job, live, _branch(lakehouse, job, branch)))


def redrive(
    spark: SparkSession,
    lakehouse: Lakehouse,
    job: KeyedJob,
    branch: str = "redrive",
    *,
    since: datetime | None = None,
    options: RunOptions | None = None,
) -> Redrive:
    """Read all of history anew into a branch, where what had come too late is in its place, and compare.

    A run takes its events in order of event time, and what is late was so when the run began: in a replay of everything
    nothing is, but by a job's own rule.

    Args:
        spark, lakehouse, job: what is redriven.
        branch: where to.
        since: counts late events from this event time on; None counts all.
        options: of the replay.

    Raises:
        KeyfoldError: as `try_job`, or no event was late since then.
    """
    live = _live(lakehouse, job)
    before = _late(spark, job, live, since)
    if not before:
        told = f" since {since:%Y-%m-%d %H:%M:%S}" if since else ""
        raise NotFound(f"job {job.name}: no event was late{told}; there is nothing to redrive")
    # All of history, whatever `since` says: late events find their place only among all others.
    trial = try_job(spark, lakehouse, job, branch, options=options)
    return Redrive(trial, before, _late(spark, job, _branch(lakehouse, job, branch), since))


def _live(lakehouse: Lakehouse, job: KeyedJob) -> Generation:
    live = live_generation(lakehouse, job.name)
    if live is None:
        raise NotFound(f"job {job.name} has never run, and there is nothing to compare with: `keyfold run {job.name}`")
    return live


def _branch(lakehouse: Lakehouse, job: KeyedJob, branch: str) -> Generation:
    folder = branch_folder(lakehouse, job.name, branch)
    return Generation(folder, read_json(folder / "generation.json"))


def _late(spark: SparkSession, job: KeyedJob, generation: Generation, since: datetime | None) -> int:
    rows = table_frame(spark, generation.table(job.late_table))
    return (rows if since is None else rows.where(F.col(job.event_time) >= F.lit(since))).count()


def frame_of(tables: tuple[TableDifference, ...]) -> pl.DataFrame:
    """Differences as a table, a row a table."""
    return pl.DataFrame(
        [
            {
                "table": one.table,
                "rows_before": one.rows_before,
                "rows_after": one.rows_after,
                "same": one.same,
                "added": one.added,
                "removed": one.removed,
                "changed": one.changed,
                "changed_columns": ", ".join(f"{name} ({count:,})" for name, count in one.changed_columns.items()),
            }
            for one in tables
        ]
    )
