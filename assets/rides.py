"""The rides group: points of taxi rides, one summary per ride, and an index of all points."""

from assets.plots.rides import plot_rides
from keyfold.dagster.assets.keyed_asset import JobAssets
from spark_jobs.jobs.event_index import EVENT_INDEX
from spark_jobs.jobs.ride_summaries import RIDE_SUMMARIES
from spark_jobs.streams import RIDE_POINTS

GROUP = "rides"
OWNERS = ("team:rides",)
STREAM = RIDE_POINTS
JOBS = [
    JobAssets(RIDE_SUMMARIES, plot=plot_rides),
    # Lower priority than the summaries, which users wait for.
    JobAssets(EVENT_INDEX, priority=0),
]
