"""Build schedules that start a job only if its previous run has finished, such as those that check whole tables."""

from collections.abc import Callable, Mapping
from typing import Any

import dagster as dg

from keyfold.dagster.automation.sensors import unfinished_run
from keyfold.dagster.quality.checks import SCOPE_TAG, Scope


def schedule_of(
    job: Any,
    cron: str,
    *,
    tags: Mapping[str, str] | None = None,
    held_back: Callable[[dg.ScheduleEvaluationContext], str | None] | None = None,
) -> dg.ScheduleDefinition:
    """Build a schedule with a job's name and description; stopped by default, since each run starts Spark.

    Args:
        job: the job's definition, resolved or not.
        cron: the cron expression, in UTC.
        tags: tags of the runs.
        held_back: returns why no run may start now, or None.
    """

    @dg.schedule(
        name=job.name,
        job=job,
        cron_schedule=cron,
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description=job.description,
    )
    def tick(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        # Otherwise runs would queue up whenever one takes longer than the interval.
        if waiting := unfinished_run(context.instance, job.name):
            return dg.SkipReason(f"run {waiting} of {job.name} has not finished")
        if held_back is not None and (reason := held_back(context)):
            return dg.SkipReason(reason)
        return dg.RunRequest(tags=tags)

    return tick


def full_scan(group: str) -> dg.ScheduleDefinition:
    """Build a schedule, stopped by default, that runs all checks of an asset group; times are UTC."""
    assets = dg.AssetSelection.groups(group)
    tags = {SCOPE_TAG: Scope.FULL.value}
    job = dg.define_asset_job(
        f"check_{group}",
        # Only the checks: the assets are not materialized.
        selection=assets - assets.without_checks(),
        tags=tags,
        description=f"Runs all checks of {group} over all rows of its tables.",
    )
    return schedule_of(job, "30 2 * * *", tags=tags)
