"""The fleet group: positions of vehicles, and their trips, stops, days and warnings."""

from assets.plots.fleet import plot_days, plot_trips, plot_warnings
from keyfold.dagster.assets.keyed_asset import conservation_check, keyed_assets
from keyfold.dagster.assets.streams import stream_assets, stream_check
from spark_jobs.jobs.fleet_days.job import FLEET_DAYS
from spark_jobs.jobs.fleet_warnings.job import FLEET_WARNINGS
from spark_jobs.jobs.vehicle_trips.job import VEHICLE_TRIPS
from spark_jobs.streams import TELEMETRY

GROUP = "fleet"
OWNERS = ("team:fleet",)
STREAM = TELEMETRY
JOBS = (VEHICLE_TRIPS, FLEET_DAYS, FLEET_WARNINGS)

ASSETS = [
    *stream_assets(TELEMETRY, group=GROUP, owners=OWNERS),
    keyed_assets(VEHICLE_TRIPS, group=GROUP, owners=OWNERS, plot=plot_trips),
    keyed_assets(FLEET_DAYS, group=GROUP, owners=OWNERS, plot=plot_days),
    keyed_assets(FLEET_WARNINGS, group=GROUP, owners=OWNERS, plot=plot_warnings),
]
CHECKS = [stream_check(TELEMETRY), *(conservation_check(job) for job in JOBS)]
