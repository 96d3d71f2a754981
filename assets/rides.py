"""The rides: points of taxi rides as they arrive, one summary a ride, and every point numbered."""

from assets.keyed_asset import TableDoc, conservation_check, keyed_assets
from assets.plots.rides import plot_rides
from assets.stream_columns import STREAM_COLUMNS
from assets.streams import stream_assets, stream_check
from spark_jobs.jobs.event_index import EVENT_INDEX
from spark_jobs.jobs.ride_summaries.job import RIDE_SUMMARIES
from spark_jobs.streams import RIDE_POINTS

GROUP = "rides"
OWNERS = ("team:rides",)
STREAM = RIDE_POINTS
JOBS = (RIDE_SUMMARIES, EVENT_INDEX)

_SUMMARY = {
    "ride_id": "The ride",
    "start_time": "Event time of its first point (UTC)",
    "end_time": "Event time of its last point (UTC)",
    "start_status": "Status of its first point",
    "end_status": "Status of its last point",
    "ride_duration_in_secs": "From first to last point, in seconds",
    "reason": "Why it closed: DROPOFF_SEEN, or GARBAGE_COLLECTION after a silence",
    "n_points": "Points that the summary stands for",
    "distance_in_metres": "Sum of the great-circle legs between its points",
    "fare": "Meter reading of its last point",
}

_MADE_OF = {
    "ride_id": ("ride_id",),
    "start_time": ("timestamp",),
    "end_time": ("timestamp",),
    "start_status": ("ride_status", "timestamp"),
    "end_status": ("ride_status", "timestamp"),
    "ride_duration_in_secs": ("timestamp",),
    "reason": ("ride_status",),
    "n_points": ("point_idx",),
    "distance_in_metres": ("latitude", "longitude", "timestamp"),
    "fare": ("meter_reading", "timestamp"),
}

ASSETS = [
    *stream_assets(
        RIDE_POINTS,
        group=GROUP,
        owners=OWNERS,
        description="Valid ride points, each once: typed, checked, de-duplicated by ride and point number.",
    ),
    keyed_assets(
        RIDE_SUMMARIES,
        group=GROUP,
        owners=OWNERS,
        tables={
            "ride_summaries": TableDoc(RIDE_SUMMARIES.description, _SUMMARY, _MADE_OF),
            "long_rides": TableDoc("Summaries of the rides longer than `long_ride_threshold`.", _SUMMARY, _MADE_OF),
        },
        plot=plot_rides,
    ),
    keyed_assets(
        EVENT_INDEX,
        group=GROUP,
        owners=OWNERS,
        tables={
            "event_index": TableDoc(
                EVENT_INDEX.description,
                {
                    **STREAM_COLUMNS[RIDE_POINTS.name],
                    "event_index": "Number of the event among those of its key, from 0",
                },
                {"event_index": ("ride_id", "timestamp"), **{name: (name,) for name in RIDE_POINTS.schema.names}},
            )
        },
        # People wait for summaries, not for numbers.
        priority=0,
    ),
]

CHECKS = [stream_check(RIDE_POINTS), conservation_check(RIDE_SUMMARIES), conservation_check(EVENT_INDEX)]
