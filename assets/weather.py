"""The weather group: readings of stations, and their moving averages."""

from assets.plots.weather import plot_averages
from keyfold.dagster.assets.keyed_asset import conservation_check, keyed_assets
from keyfold.dagster.assets.streams import stream_assets, stream_check
from spark_jobs.jobs.moving_averages.job import MOVING_AVERAGES
from spark_jobs.streams import WEATHER

GROUP = "weather"
OWNERS = ("team:weather",)
STREAM = WEATHER
JOBS = (MOVING_AVERAGES,)

ASSETS = [
    *stream_assets(WEATHER, group=GROUP, owners=OWNERS),
    keyed_assets(MOVING_AVERAGES, group=GROUP, owners=OWNERS, plot=plot_averages),
]
CHECKS = [stream_check(WEATHER), conservation_check(MOVING_AVERAGES)]
