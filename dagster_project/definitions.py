"""Everything Dagster loads."""

import dagster as dg

from assets import enrichment
from dagster_project.automation import JOBS, ROOMS, SCHEDULES, SENSORS, automated
from dagster_project.resources import resources_from
from dagster_project.suites import SUITES

_ROOMS = (*ROOMS, enrichment)

defs = dg.Definitions(
    assets=dg.map_asset_specs(automated, [asset for room in _ROOMS for asset in room.ASSETS]),
    asset_checks=[*(check for room in _ROOMS for check in room.CHECKS), *SUITES],
    jobs=JOBS,
    sensors=SENSORS,
    schedules=SCHEDULES,
    resources=resources_from(),
    # One process, one Spark session: a process a step would start a JVM for each.
    executor=dg.in_process_executor,
)
