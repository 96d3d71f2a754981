"""Build Dagster's jobs, sensors and schedules from the project's asset groups."""

from datetime import timedelta

import dagster as dg

from keyfold.dagster.assets.groups import project_groups
from keyfold.dagster.assets.metadata import table_key
from keyfold.dagster.automation.automation_conditions import (
    automation_sensor,
    failed_checks_before,
    on_checked_events,
)
from keyfold.dagster.automation.maintenance import lakehouse_check, maintenance
from keyfold.dagster.automation.schedules import full_scan, schedule_of
from keyfold.dagster.automation.sensors import source_sensor
from keyfold.keyed.job.template import JobTemplate

GROUPS = project_groups()
"""The project's asset groups."""

FRESH = dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=26), warn_window=timedelta(hours=13))
"""Freshness policy of every job's main table: landing files or clock ticks write it at least twice a day."""

TICKS = "*/10 * * * *"


def tick_schedule(template: JobTemplate, cron: str) -> dg.ScheduleDefinition:
    """Build a schedule that runs a keyed job whether or not there are new events.

    Every run advances the job's clock. On a silent stream no file lands, so no sensor starts a run, and only these ticks fire
    due timers. A stream whose files keep landing needs no ticks.
    """
    job = dg.define_asset_job(
        f"tick_{template.name}",
        # The job writes all its tables in one step, so selecting its main table is enough.
        selection=dg.AssetSelection.assets(table_key(template.name)).required_multi_asset_neighbors(),
        description=f"Advances the clock of {template.name} and fires due timers, even if the stream is silent.",
    )

    def held_back(context: dg.ScheduleEvaluationContext) -> str | None:
        failed = failed_checks_before(context.instance, context.repository_def, table_key(template.name))
        return f"held back by failed checks: {', '.join(failed)}" if failed else None

    return schedule_of(job, cron, held_back=held_back)


def automated(spec: dg.AssetSpec) -> dg.AssetSpec:
    """Add the automation condition to the spec of a job's table, and the freshness policy to the job's main table."""
    if "keyfold/job" not in spec.tags:
        return spec
    spec = spec.replace_attributes(automation_condition=on_checked_events())
    is_own = spec.key == table_key(spec.tags["keyfold/job"])
    return spec.replace_attributes(freshness_policy=FRESH) if is_own else spec


CHECK_JOB, CHECK_SCHEDULE = lakehouse_check()

_MAINTENANCE = [
    maintenance(group.name, streams=streams, jobs=group.jobs)[1]
    for group in GROUPS
    for streams in [[group.stream] if group.stream else []]
    if streams or group.jobs
]

JOBS = [
    *(
        dg.define_asset_job(
            group.name,
            selection=dg.AssetSelection.groups(group.name),
            description=f"Ingests the streams of {group.name}, runs its jobs, and checks all tables.",
        )
        for group in GROUPS
    ),
    dg.define_asset_job(
        "everything",
        selection=dg.AssetSelection.all(),
        description="Ingests all streams, runs all jobs and all checks, in one Spark session.",
    ),
    CHECK_JOB,
]
SENSORS = [
    *(source_sensor(group.stream, group.name) for group in GROUPS if group.stream is not None),
    automation_sensor(),
]
SCHEDULES = [
    *(tick_schedule(template, TICKS) for group in GROUPS for template in group.jobs),
    *(full_scan(group.name) for group in GROUPS),
    CHECK_SCHEDULE,
    *_MAINTENANCE,
]
