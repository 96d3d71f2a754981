"""A nightly job that deletes Dagster's own history once it is old; see `purging`."""

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
    """For how many days runs are kept.

    Raises:
        KeyfoldError: the variable is set to no number of days, or to less than one.
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
        description=f"Runs are kept for so many days after their end; {KEEP_DAYS} where it is set. The newest "
        "materialization of every asset and evaluation of every check are kept however old they are.",
    )


def history_purge(cron: str = "30 4 * * *") -> dg.ScheduleDefinition:
    """A schedule, stopped by default, of the job that deletes old history; times are UTC."""
    keep_days()  # a wrong value is an error when definitions load, not at night

    @dg.op(out=dg.Out(dg.Nothing))
    def purge_dagster_history(context: dg.OpExecutionContext, config: HistoryConfig) -> None:
        # Definitions load without the database's library, which this alone needs.
        from keyfold.dagster.automation.upkeep.purging import purge  # noqa: PLC0415

        origin = context.run.remote_job_origin
        purged = purge(
            context.instance,
            timedelta(days=config.keep_runs_days),
            origin.repository_origin.code_location_origin.location_name if origin else None,
        )
        locks, folders = forget_ended_runs(context.instance), sweep_scratch()
        context.log.info(
            f"deleted {purged.runs} runs that ended more than {config.keep_runs_days:g} days ago and {purged.events} "
            f"events of no run; {purged.kept} older ones stay, as the newest of an asset or a check. Of killed "
            f"processes: {locks} locks, {folders} temporary folders"
        )

    @dg.job(name="purge_history", description="Deletes Dagster's runs, events and logs that are old.")
    def purge_history() -> None:
        purge_dagster_history()

    return schedule_of(purge_history, cron)
