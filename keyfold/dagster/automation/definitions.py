"""Jobs, and what starts them: a sensor a stream, schedules for clocks, full scans and maintenance."""

from datetime import timedelta

import dagster as dg

from keyfold.dagster.assets.groups import find_groups
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

GROUPS = find_groups()
"""The groups of assets, as `keyfold.dagster.assets.groups` finds them."""

CONTINUOUS = declared(GROUPS)
"""What runs continuously outside of Dagster."""

_GOES_ON = {one.name for one in CONTINUOUS}
_WATCHED = [watching(one) for one in CONTINUOUS]

ASSETS = {group.name: list(as_external(group.assets, CONTINUOUS)) for group in GROUPS}
"""The assets by group; those that run continuously can be materialized from nowhere."""

CONTINUOUS_CHECKS = [check for _, _, check in _WATCHED]

FRESH = dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=26), warn_window=timedelta(hours=13))
"""Of every job's own table: it is written at least twice a day, by files that land or by the clock's ticks."""

TICKS = "*/10 * * * *"


def tick_schedule(template: JobTemplate, cron: str) -> dg.ScheduleDefinition:
    """A schedule that runs a keyed job on whatever its event table holds, new events or none.

    Every run ticks the job's clock: on a silent stream, where no file lands and so no sensor fires, this is what
    closes what is due. A stream whose files keep coming needs no ticks.
    """
    job = dg.define_asset_job(
        f"tick_{template.name}",
        # The job writes all its tables in one step: one of them stands for all.
        selection=dg.AssetSelection.assets(table_key(template.name)).required_multi_asset_neighbors(),
        description=f"Advances the clock of {template.name} and closes what is due, on a silent stream too.",
    )

    def held_back(context: dg.ScheduleEvaluationContext) -> str | None:
        failed = failed_checks_before(context.instance, context.repository_def, table_key(template.name))
        return f"held back by failed checks: {', '.join(failed)}" if failed else None

    return schedule_of(job, cron, held_back=held_back)


def automated(spec: dg.AssetSpec) -> dg.AssetSpec:
    """The spec of a job's table with the condition that starts it; the job's own table is also to be kept fresh."""
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
    # Whoever writes continuously sees to its tables itself.
    for streams in [
        streams_with(group.stream, project_streams()) if group.stream and group.stream.name not in _GOES_ON else []
    ]
    for jobs in [[template for template in group.jobs if template.name not in _GOES_ON]]
    if streams or jobs
]

JOBS = [
    *(
        dg.define_asset_job(
            group.name,
            selection=dg.AssetSelection.groups(group.name),
            description=f"All of {group.name}: landing files to events to the jobs' tables, with every check.",
        )
        for group in GROUPS
        if any(isinstance(asset, dg.AssetsDefinition) for asset in ASSETS[group.name])
    ),
    dg.define_asset_job(
        "everything",
        # What is open is looked at when somebody wants to know.
        selection=dg.AssetSelection.all() - dg.AssetSelection.groups(OPEN_STATE),
        description="Every stream, every job, every check, in one Spark session.",
    ),
    OPEN_STATE_JOB,
    CHECK_JOB,
    *STATE_TOOLS,
]
SENSORS = [
    *(
        source_sensor(group.stream, group.name)
        for group in GROUPS
        if group.stream is not None and group.stream.name not in _GOES_ON
    ),
    *(sensor for sensor, _, _ in _WATCHED),
    automation_sensor(),
]
SCHEDULES = [
    *(tick_schedule(template, TICKS) for group in GROUPS for template in group.jobs if template.name not in _GOES_ON),
    *(schedule for _, schedule, _ in _WATCHED),
    *(full_scan(group.name) for group in GROUPS),
    OPEN_STATE_SCHEDULE,
    CHECK_SCHEDULE,
    *_MAINTENANCE,
    history_purge(),
]
