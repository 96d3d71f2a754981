"""The rides group: points of taxi rides, one summary per ride, an index of all points, and jumps of meters."""

from assets.plots.rides import plot_rides
from keyfold import project_suites
from keyfold.dagster import JobAssets, keyfold_group
from spark_jobs.jobs.event_index import EVENT_INDEX
from spark_jobs.jobs.ride_meter_jumps import RIDE_METER_JUMPS
from spark_jobs.jobs.ride_summaries import RIDE_SUMMARIES
from spark_jobs.streams import RIDE_POINTS

GROUP = keyfold_group(
    "rides",
    owners=("team:rides",),
    streams=[RIDE_POINTS],
    jobs=[
        JobAssets(RIDE_SUMMARIES, plot=plot_rides),
        # Lower priority than the summaries, which users wait for.
        JobAssets(EVENT_INDEX, priority=0),
        RIDE_METER_JUMPS,
    ],
    suites=project_suites(),
)
