"""The fleet group: positions of vehicles, and their trips, stops, days and warnings."""

from assets.plots.fleet import plot_trips
from keyfold import project_suites
from keyfold.dagster import JobAssets, keyfold_group
from spark_jobs.jobs.fleet_days import FLEET_DAYS
from spark_jobs.jobs.fleet_warnings.job import FLEET_WARNINGS
from spark_jobs.jobs.vehicle_trips import VEHICLE_TRIPS
from spark_jobs.streams import TELEMETRY

GROUP = keyfold_group(
    "fleet",
    owners=("team:fleet",),
    streams=[TELEMETRY],
    jobs=[JobAssets(VEHICLE_TRIPS, plot=plot_trips), FLEET_DAYS, FLEET_WARNINGS],
    suites=project_suites(),
)
