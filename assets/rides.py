"""The rides group: points of taxi rides, one summary per ride, and an index of all points."""

from assets.plots.rides import plot_rides
from keyfold.dagster.assets.keyed_asset import conservation_check, keyed_assets
from keyfold.dagster.assets.streams import stream_assets, stream_check
from spark_jobs.jobs.event_index import EVENT_INDEX
from spark_jobs.jobs.ride_summaries.job import RIDE_SUMMARIES
from spark_jobs.streams import RIDE_POINTS

GROUP = "rides"
OWNERS = ("team:rides",)
STREAM = RIDE_POINTS
JOBS = (RIDE_SUMMARIES, EVENT_INDEX)

ASSETS = [
    *stream_assets(RIDE_POINTS, group=GROUP, owners=OWNERS),
    keyed_assets(RIDE_SUMMARIES, group=GROUP, owners=OWNERS, plot=plot_rides),
    # Lower priority than the summaries, which users wait for.
    keyed_assets(EVENT_INDEX, group=GROUP, owners=OWNERS, priority=0),
]
CHECKS = [stream_check(RIDE_POINTS), conservation_check(RIDE_SUMMARIES), conservation_check(EVENT_INDEX)]
