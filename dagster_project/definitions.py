"""Everything Dagster loads."""

import dagster as dg

from assets import enrichment, health
from dagster_project.automation.definitions import JOBS, ROOMS, SCHEDULES, SENSORS, automated
from dagster_project.resources import resources_from
from dagster_project.suites import SUITES

_ROOMS = (*ROOMS, enrichment)

defs = dg.Definitions(
    assets=dg.map_asset_specs(automated, [asset for room in (*_ROOMS, health) for asset in room.ASSETS]),
    asset_checks=[
        *(check for room in _ROOMS for check in room.CHECKS),
        *(health.health_checks(template) for room in _ROOMS for template in room.JOBS),
        *(health.drift_check(room.STREAM) for room in ROOMS),
        *SUITES,
    ],
    jobs=JOBS,
    sensors=SENSORS,
    schedules=SCHEDULES,
    resources=resources_from(),
    # One process, one Spark session: a process a step would start a JVM for each.
    executor=dg.in_process_executor,
)
