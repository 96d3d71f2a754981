"""The weather group: readings of stations, and their moving averages."""

from assets.plots.weather import plot_averages
from keyfold import project_suites
from keyfold.dagster import JobAssets, keyfold_group
from spark_jobs.jobs.moving_averages import MOVING_AVERAGES
from spark_jobs.streams import WEATHER

GROUP = keyfold_group(
    "weather",
    owners=("team:weather",),
    streams=[WEATHER],
    jobs=[
        JobAssets(MOVING_AVERAGES, plot=plot_averages),
    ],
    suites=project_suites(),
)
