"""Everything Dagster loads."""

import dagster as dg

from assets import rides
from dagster_project.automation import SCHEDULES, SENSORS, rides_job
from dagster_project.resources import resources_from
from dagster_project.suites import SUITES

defs = dg.Definitions(
    assets=[*rides.ASSETS],
    asset_checks=[*rides.CHECKS, *SUITES],
    jobs=[rides_job],
    sensors=SENSORS,
    schedules=SCHEDULES,
    resources=resources_from(),
    # One process, one Spark session: a process a step would start a JVM for each.
    executor=dg.in_process_executor,
)
