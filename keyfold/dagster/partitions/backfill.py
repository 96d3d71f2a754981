"""Compute the partitions that a run of Dagster asks for again, such as those of a backfill."""

from datetime import UTC, datetime

import dagster as dg
import polars as pl

from keyfold.dagster import declared
from keyfold.dagster.partitions.completeness import rows_written
from keyfold.dagster.partitions.declared import Partitions
from keyfold.errors import KeyfoldError
from keyfold.journal.audit import Author
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job_run import watermark
from keyfold.lakehouse import Lakehouse
from keyfold.runners import Runners
from keyfold.runs.reprocess import reprocess
from keyfold.state.changing.recomputing import check_has_row_times

Span = tuple[datetime, datetime]


def asked_span(context: dg.AssetExecutionContext, asset: dg.AssetKey) -> Span | None:
    """Return the span of the partitions that a run asks for, in UTC; None for a run without partitions."""
    is_of_partitions = context.has_partition_key or context.has_partition_key_range
    if not is_of_partitions or asset not in context.selected_asset_keys:
        return None
    window = context.partition_time_window
    return window.start.astimezone(UTC), window.end.astimezone(UTC)


def check_can_reprocess(lakehouse: Lakehouse, job: KeyedJob, partitions: Partitions) -> None:
    """Check that partitions of a job's table can be computed again.

    Raises:
        KeyfoldError: they cannot; says why, and what to do instead.
    """
    check_has_row_times(lakehouse, job)
    if _time_of_rows(job, partitions) is None:
        times = job.row_times.of_table(job.main) if job.row_times is not None else None
        names = "" if times is None else ", ".join(times.meta.root_names())
        raise KeyfoldError(
            f"job {job.name}: its rows belong to the time in {names}, and its partitions are by {partitions.column}, so that they "
            f"cannot be computed again; partitions by {names} can"
        )


def reprocess_partitions(
    context: dg.AssetExecutionContext,
    lakehouse: Lakehouse,
    job: KeyedJob,
    partitions: Partitions,
    asked: Span,
    runners: Runners,
) -> None:
    """Compute the rows of those partitions again that are complete (`runs.reprocess`); of others, the log says that they are not.

    Args:
        context: of the run.
        lakehouse, job, runners: as for `reprocess`.
        partitions: the partitions of the main table.
        asked: the span of the partitions that are asked for.

    Raises:
        KeyfoldError: none is complete; or as `reprocess`.
    """
    live = live_generation(lakehouse, job.name)
    passed = watermark(live) if live else None
    until = None if passed is None else rows_written(f"job {job.name}", job, partitions)(passed)
    periods = partitions.periods(*asked)
    complete = [period for period in periods if until is not None and period.end <= until]
    if not complete:
        raise KeyfoldError(
            f"job {job.name}: none of the partitions {periods[0].key} to {periods[-1].key} is complete yet: they are reported when the "
            "watermark has passed them; run the job without partitions"
        )
    if incomplete := periods[len(complete) :]:
        context.log.info(f"not complete yet: {', '.join(period.key for period in incomplete)}")
    time = _time_of_rows(job, partitions)
    assert time is not None  # noqa: S101 - checked before the run
    since, end = (
        pl.select(pl.lit(bound, pl.Datetime("us", "UTC")).alias(partitions.column)).select(time).item()
        for bound in (complete[0].start, complete[-1].end)
    )
    author = Author("dagster", f"run {context.run.run_id} asked for partitions {complete[0].key} to {complete[-1].key}")
    done = reprocess(lakehouse, job, since, end, author=author, jobs=declared.JOBS.values(), yes=True, runners=runners)
    for warning in done.warnings:
        context.log.warning(warning)


def _time_of_rows(job: KeyedJob, partitions: Partitions) -> pl.Expr | None:
    """Return the time of the rows that `reprocess` goes by, as an expression of the column of partitions; None if it is of others."""
    times = () if job.row_times is None else job.row_times.of_rows
    return next((time for time in times if time.meta.root_names() == [partitions.column]), None)
