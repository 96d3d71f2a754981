"""The fleet group: positions of vehicles, and their trips, stops, days and warnings."""

from assets.plots.fleet import plot_days, plot_trips, plot_warnings
from keyfold.dagster import JobAssets, keyfold_group
from keyfold.project import project_suites
from spark_jobs.jobs.fleet_days import FLEET_DAYS
from spark_jobs.jobs.fleet_warnings.job import FLEET_WARNINGS
from spark_jobs.jobs.vehicle_trips import VEHICLE_TRIPS
from spark_jobs.streams import TELEMETRY

GROUP = keyfold_group(
    "fleet",
    owners=("team:fleet",),
    streams=[TELEMETRY],
    jobs=[
        JobAssets(VEHICLE_TRIPS, plot=plot_trips),
        JobAssets(FLEET_DAYS, plot=plot_days),
        JobAssets(FLEET_WARNINGS, plot=plot_warnings),
    ],
    suites=project_suites(),
)
