"""Build the Dagster definitions of the project from its asset groups and suites."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from keyfold.dagster.alerts import alert_sensors
from keyfold.dagster.resources import check_home, lakehouse_home, resources_from
from keyfold.dagster.run_config import checked_in_process_executor, closed
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
    # Imported here, since these modules build assets, checks and jobs when they are imported.
    from keyfold.dagster.assets import health  # noqa: PLC0415
    from keyfold.dagster.automation import definitions as automation  # noqa: PLC0415
    from keyfold.dagster.suites import SUITES  # noqa: PLC0415

    assets = [
        *(asset for group in automation.GROUPS for asset in group.assets),
        *health.ASSETS,
    ]
    checks = [
        *(check for group in automation.GROUPS for check in group.checks),
        *(health.health_checks(template) for group in automation.GROUPS for template in group.jobs),
        *(
            build(group.stream)
            for group in automation.GROUPS
            if group.stream is not None
            for build in (health.drift_check, health.quarantine_check)
        ),
        *SUITES,
    ]
    return dg.Definitions(
        assets=dg.map_asset_specs(automation.automated, assets),
        asset_checks=checks,
        jobs=automation.JOBS,
        sensors=[*automation.SENSORS, *alert_sensors()],
        schedules=automation.SCHEDULES,
        resources=closed(resources_from()),
        # One process with one Spark session a run: a process for each step would start a JVM for each.
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
