"""The weather group: readings of stations, and their moving averages."""

from assets.plots.weather import plot_averages
from keyfold.dagster.assets.keyed_asset import JobAssets
from spark_jobs.jobs.moving_averages import MOVING_AVERAGES
from spark_jobs.streams import WEATHER

GROUP = "weather"
OWNERS = ("team:weather",)
STREAM = WEATHER
JOBS = [
    JobAssets(MOVING_AVERAGES, plot=plot_averages),
]
