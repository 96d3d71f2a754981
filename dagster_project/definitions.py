"""Everything Dagster loads."""

import dagster as dg

from assets import health
from dagster_project.alerts.settings import AlertSettings
from dagster_project.automation.definitions import (
    ASSETS,
    CONTINUOUS_CHECKS,
    JOBS,
    ROOMS,
    SCHEDULES,
    SENSORS,
    automated,
)
from dagster_project.automation.open_state import open_state_assets
from dagster_project.automation.run_liveness import watched_in_process_executor
from dagster_project.resources import check_home, lakehouse_home, resources_from, spark_settings
from dagster_project.run_config import closed
from dagster_project.submitted.twins import as_set
from dagster_project.suites import SUITES
from spark_jobs.private_files import keep_files_private

# Loaded by the code server and in every run's process, before either has written anything.
keep_files_private()
check_home(lakehouse_home())
AlertSettings.from_environment()  # a wrong setting is an error here, not when something has to be reported

assets, checks = as_set(
    [*(asset for room in ROOMS for asset in ASSETS[room.group]), *open_state_assets(ROOMS), *health.ASSETS],
    [
        *(check for room in ROOMS for check in room.checks),
        *(health.health_checks(template) for room in ROOMS for template in room.jobs),
        *(health.drift_check(room.stream) for room in ROOMS if room.stream is not None),
        *SUITES,
        *CONTINUOUS_CHECKS,
    ],
    module=__name__,
    settings=spark_settings,
)

defs = dg.Definitions(
    assets=dg.map_asset_specs(automated, assets),
    asset_checks=checks,
    jobs=JOBS,
    sensors=SENSORS,
    schedules=SCHEDULES,
    resources=closed(resources_from()),
    # One process, one Spark session: a process a step would start a JVM for each.
    executor=watched_in_process_executor,
)
