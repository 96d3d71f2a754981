"""The rides: points of taxi rides as they arrive, one summary a ride, and every point numbered."""

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
    # People wait for summaries, not for numbers.
    keyed_assets(EVENT_INDEX, group=GROUP, owners=OWNERS, priority=0),
]
CHECKS = [stream_check(RIDE_POINTS), conservation_check(RIDE_SUMMARIES), conservation_check(EVENT_INDEX)]
