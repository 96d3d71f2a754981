"""Build the nightly job that deletes old runs from Dagster's history; see `purging`."""

import os
from collections.abc import Mapping
from datetime import timedelta

import dagster as dg
from pydantic import Field

from keyfold.dagster.automation.starting.schedules import schedule_of
from keyfold.dagster.automation.upkeep.run_liveness import forget_ended_runs
from keyfold.errors import Misconfigured
from keyfold.session.scratch import sweep_scratch

KEEP_DAYS = "KEYFOLD_KEEP_RUNS_DAYS"
_DAYS = 30.0


def keep_days(environment: Mapping[str, str] = os.environ) -> float:
    """Return for how many days runs are kept.

    Raises:
        KeyfoldError: the variable is not a number of days, or less than one.
    """
    given = environment.get(KEEP_DAYS) or str(_DAYS)
    try:
        days = float(given)
    except ValueError:
        days = 0.0
    if not 1 <= days < float("inf"):
        raise Misconfigured(f"{KEEP_DAYS} is {given!r}: give a number of days, 1 or more")
    return days


class HistoryConfig(dg.Config):
    """Run config of the purge."""

    keep_runs_days: float = Field(
        default_factory=keep_days,
        ge=1,
        description=f"Days to keep runs after their end; default: {KEEP_DAYS}. The newest materialization of every asset "
        "and the newest evaluation of every check are always kept.",
    )


def history_purge() -> dg.ScheduleDefinition:
    """Build the schedule, stopped by default, of the job that deletes old history; times are UTC."""
    keep_days()  # a wrong value must fail when definitions load, not at night

    @dg.op(out=dg.Out(dg.Nothing))
    def purge_dagster_history(context: dg.OpExecutionContext, config: HistoryConfig) -> None:
        # Imported late: loading definitions must not import SQLAlchemy.
        from keyfold.dagster.automation.upkeep.purging import purge  # noqa: PLC0415

        origin = context.run.remote_job_origin
        purged = purge(
            context.instance,
            timedelta(days=config.keep_runs_days),
            origin.repository_origin.code_location_origin.location_name if origin else None,
        )
        locks, folders = forget_ended_runs(context.instance), sweep_scratch()
        context.log.info(
            f"deleted {purged.runs} runs that ended more than {config.keep_runs_days:g} days ago, {purged.events} "
            f"events without a run, and {locks} locks and {folders} temporary folders of killed processes; kept "
            f"{purged.kept} older runs with the newest event of an asset or a check"
        )

    @dg.job(name="purge_history", description="Deletes old runs, events and logs from Dagster's history.")
    def purge_history() -> None:
        purge_dagster_history()

    return schedule_of(purge_history, "30 4 * * *")
