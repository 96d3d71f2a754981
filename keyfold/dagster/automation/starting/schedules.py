"""Schedules that start a job only when its run before is over."""

from collections.abc import Callable, Mapping
from typing import Any

import dagster as dg

from keyfold.dagster.automation.starting.sensors import unfinished_run


def schedule_of(
    job: Any,
    cron: str,
    *,
    tags: Mapping[str, str] | None = None,
    held_back: Callable[[dg.ScheduleEvaluationContext], str | None] | None = None,
) -> dg.ScheduleDefinition:
    """A schedule with a job's name and description; stopped by default, as a run costs a Spark session.

    Args:
        job: the definition of a job, resolved or not.
        cron: when; times are UTC.
        tags: of its runs.
        held_back: tells for what reason no run may start now, None where one may.
    """

    @dg.schedule(
        name=job.name,
        job=job,
        cron_schedule=cron,
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description=job.description,
    )
    def tick(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        # Else ticks would pile up behind a run that is slower than they come.
        if waiting := unfinished_run(context.instance, job.name):
            return dg.SkipReason(f"run {waiting} of {job.name} is not over")
        if held_back is not None and (reason := held_back(context)):
            return dg.SkipReason(reason)
        return dg.RunRequest(tags=tags)

    return tick
