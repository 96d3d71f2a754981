"""Build Dagster's jobs, sensors and schedules from the project's asset groups."""

from datetime import timedelta

import dagster as dg

from keyfold.dagster.assets.groups import project_groups
from keyfold.dagster.assets.metadata import table_key
from keyfold.dagster.assets.open_state import OPEN_STATE
from keyfold.dagster.automation.continuous_runs.external_assets import TAG, as_external, declared, watching
from keyfold.dagster.automation.starting.automation_conditions import (
    automation_sensor,
    failed_checks_before,
    on_checked_events,
)
from keyfold.dagster.automation.starting.schedules import schedule_of
from keyfold.dagster.automation.starting.sensors import source_sensor
from keyfold.dagster.automation.state.open_state import open_state_job
from keyfold.dagster.automation.state.state_tools import STATE_TOOLS
from keyfold.dagster.automation.upkeep.full_scan import full_scan
from keyfold.dagster.automation.upkeep.lakehouse_check import lakehouse_check
from keyfold.dagster.automation.upkeep.maintenance import maintenance
from keyfold.dagster.automation.upkeep.old_history import history_purge
from keyfold.keyed.job.template import JobTemplate
from keyfold.project import project_streams
from keyfold.stream.sharing import streams_with

GROUPS = project_groups()
"""The project's asset groups."""

CONTINUOUS = declared(GROUPS)
"""The streams and jobs that run continuously outside of Dagster."""

_CONTINUOUS_NAMES = {one.name for one in CONTINUOUS}
_WATCHED = [watching(one) for one in CONTINUOUS]

ASSETS = {group.name: list(as_external(group.assets, CONTINUOUS)) for group in GROUPS}
"""The assets by group; Dagster cannot materialize those that run continuously."""

CONTINUOUS_CHECKS = [check for _, _, check in _WATCHED]

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
    if TAG not in spec.tags:
        spec = spec.replace_attributes(automation_condition=on_checked_events())
    is_own = spec.key == table_key(spec.tags["keyfold/job"])
    return spec.replace_attributes(freshness_policy=FRESH) if is_own else spec


OPEN_STATE_JOB, OPEN_STATE_SCHEDULE = open_state_job()
CHECK_JOB, CHECK_SCHEDULE = lakehouse_check()

_MAINTENANCE = [
    maintenance(group.name, streams=streams, jobs=jobs)[1]
    for group in GROUPS
    # A continuous run maintains its own tables.
    for streams in [
        streams_with(group.stream, project_streams())
        if group.stream and group.stream.name not in _CONTINUOUS_NAMES
        else []
    ]
    for jobs in [[template for template in group.jobs if template.name not in _CONTINUOUS_NAMES]]
    if streams or jobs
]

JOBS = [
    *(
        dg.define_asset_job(
            group.name,
            selection=dg.AssetSelection.groups(group.name),
            description=f"Ingests the streams of {group.name}, runs its jobs, and checks all tables.",
        )
        for group in GROUPS
        if any(isinstance(asset, dg.AssetsDefinition) for asset in ASSETS[group.name])
    ),
    dg.define_asset_job(
        "everything",
        # The tables of open keys are written on request or by their own schedule.
        selection=dg.AssetSelection.all() - dg.AssetSelection.groups(OPEN_STATE),
        description="Ingests all streams, runs all jobs and all checks, in one Spark session.",
    ),
    OPEN_STATE_JOB,
    CHECK_JOB,
    *STATE_TOOLS,
]
SENSORS = [
    *(
        source_sensor(group.stream, group.name)
        for group in GROUPS
        if group.stream is not None and group.stream.name not in _CONTINUOUS_NAMES
    ),
    *(sensor for sensor, _, _ in _WATCHED),
    automation_sensor(),
]
SCHEDULES = [
    *(
        tick_schedule(template, TICKS)
        for group in GROUPS
        for template in group.jobs
        if template.name not in _CONTINUOUS_NAMES
    ),
    *(schedule for _, schedule, _ in _WATCHED),
    *(full_scan(group.name) for group in GROUPS),
    OPEN_STATE_SCHEDULE,
    CHECK_SCHEDULE,
    *_MAINTENANCE,
    history_purge(),
]
