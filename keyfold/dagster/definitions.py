"""Build the Dagster definitions of the project from its asset groups and suites."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from keyfold.dagster.alerts import alert_sensors
from keyfold.dagster.assets import health
from keyfold.dagster.assets.groups import project_groups
from keyfold.dagster.automation.maintenance import lakehouse_check, maintenance
from keyfold.dagster.automation.sensors import source_sensor
from keyfold.dagster.automation.starts import automated, automation_sensor, full_scan, tick_schedule
from keyfold.dagster.resources import check_home, lakehouse_home, resources_from
from keyfold.dagster.run_config import checked_in_process_executor, closed
from keyfold.dagster.suites import project_suites
from keyfold.machine.private_files import keep_files_private


def build_definitions() -> dg.Definitions:
    """Build the definitions of the current project.

    Raises:
        KeyfoldError: a setting in the environment is wrong, or a module of the project cannot be imported.

    Example:
        >>> defs = build_definitions()  # doctest: +SKIP
    """
    # The code server and every run's process load this before they write anything.
    keep_files_private()
    check_home(lakehouse_home())
    with _no_collections():
        return _definitions()


def _definitions() -> dg.Definitions:
    groups = project_groups()
    streams = [group.stream for group in groups if group.stream is not None]
    declared_jobs = [declared for group in groups for declared in group.jobs]
    check_job, check_schedule = lakehouse_check()
    maintained = [
        maintenance(group.name, streams=[group.stream] if group.stream else [], jobs=group.jobs)
        for group in groups
        if group.stream or group.jobs
    ]
    return dg.Definitions(
        assets=dg.map_asset_specs(
            automated, [*(asset for group in groups for asset in group.assets), health.run_statistics_asset()]
        ),
        asset_checks=[
            *(check for group in groups for check in group.checks),
            *map(health.health_checks, declared_jobs),
            *map(health.stream_health_checks, streams),
            *project_suites(),
        ],
        jobs=[
            *(
                dg.define_asset_job(
                    group.name,
                    selection=dg.AssetSelection.groups(group.name),
                    description=f"Ingests the stream of {group.name}, runs its jobs, and checks all tables.",
                )
                for group in groups
            ),
            dg.define_asset_job(
                "everything",
                selection=dg.AssetSelection.all(),
                description="Ingests all streams, runs all jobs and all checks, in one process.",
            ),
            check_job,
        ],
        sensors=[
            *(source_sensor(group.stream, group.name) for group in groups if group.stream is not None),
            automation_sensor(),
            *alert_sensors(),
        ],
        schedules=[
            *map(tick_schedule, declared_jobs),
            *(full_scan(group.name) for group in groups),
            check_schedule,
            *(schedule for _, schedule in maintained),
        ],
        resources=closed(resources_from()),
        # One process a run: its steps share one Spark session, where they need one.
        executor=checked_in_process_executor,
    )


@contextmanager
def _no_collections() -> Iterator[None]:
    """Put off garbage collections, a tenth of the time: they visit all that is loaded again and again, and it all stays."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
