"""Summarise rides: one row per ride when it has ended with a dropoff or has timed out.

For an open ride, state has one row with the sums of the points that the watermark has passed (start, distance, last position),
and each point ahead of the watermark; for a closed ride a marker row, by which late points are recognised (`sessions` with `Until`).
Distances are summed in whole micrometres, so that the order of summing does not matter.

The parameter `close` decides when a ride closes:

- `fast`: at its first dropoff, as soon as that point arrives; else when the watermark has passed its last point by `timeout`.
  Points that arrive in later runs, out of order after the close, are late.
- `complete`: by event time alone, at the first dropoff or the first silence longer than `timeout`, once the watermark has
  passed that. The summary depends neither on the order of arrival nor on batch boundaries.

A closed ride stays closed for `closed_for` of event time; points that arrive until then go to `late.ride_summaries`. So does a
point at or behind the previous watermark, whatever the state of its ride. With `timeout_in=processing_time`, a ride without a
dropoff closes when no run has brought a point of it for `timeout`; a later point starts the ride again.
"""

from datetime import timedelta
from typing import Literal

import polars as pl
import pyarrow as pa

from keyfold import TIMESTAMP, Append, Duration, Input, KeyedJob, Timeout, column, parameter, required, with_parameters
from keyfold.operators import Until, count, divided, first, last, over_pairs, sessions
from spark_jobs.jobs.motion import leg_in_micrometres
from spark_jobs.jobs.silence import SilentParameters
from spark_jobs.streams import RIDE_POINTS

_POINT = ("ride_id", "point_idx", "latitude", "longitude", "timestamp", "meter_reading", "ride_status")

_PLACE = ("latitude", "longitude")

RIDE_SUMMARY = pa.schema(
    [
        required("ride_id", pa.string(), "The ride"),
        required("start_time", TIMESTAMP, "Event time of its first point (UTC)"),
        required("end_time", TIMESTAMP, "Event time of its last point (UTC)"),
        required("start_status", pa.string(), "Status of its first point"),
        required("end_status", pa.string(), "Status of its last point"),
        required("ride_duration_in_secs", pa.float64(), "From first to last point", unit="seconds"),
        required("reason", pa.string(), "Why it closed: DROPOFF_SEEN, or GARBAGE_COLLECTION after a silence"),
        required("n_points", pa.int64(), "Number of its points"),
        required("distance_in_metres", pa.float64(), "Sum of the great-circle legs between its points", unit="metres"),
        column("fare", pa.float64(), "Meter reading of its last point"),
        *(
            column(
                f"start_{name}",
                pa.float64(),
                f"{name.title()} of its first point; NULL if the ride was open when the column was added",
                unit=f"degrees {towards}",
            )
            for name, towards in (("latitude", "north"), ("longitude", "east"))
        ),
    ]
)


class RideSummaryParameters(SilentParameters):
    """Parameters of `ride_summaries`."""

    # An open ride keeps its points and closes by the new rule, at the latest when the old rule would have closed it; a closed
    # ride stays closed.
    close: Literal["fast", "complete"] = parameter(
        "fast",
        description="fast: a ride closes as soon as its dropoff is seen. complete: it waits until the watermark has "
        "passed the dropoff, so that points that arrive out of order are counted.",
        change="migrate",
    )
    timeout: Duration = parameter(
        timedelta(minutes=30), description="Silence after a ride's last point that closes the ride", change="migrate"
    )
    long_ride_threshold: Duration = parameter(
        timedelta(hours=1), description="Rides longer than this are in long_rides", change="migrate"
    )
    closed_for: Duration = parameter(
        timedelta(days=1),
        description="Event time for which a closed ride is remembered, so that its points count as late",
        change="migrate",
    )


def build(parameters: RideSummaryParameters) -> KeyedJob:
    """One row per ride: start and end, why it closed, distance and fare."""
    duration, dropped_off = pl.col("end_time") - pl.col("start_time"), pl.col("end_status") == "dropoff"
    is_long = pl.col("ride_duration_in_secs") > parameters.long_ride_threshold.total_seconds()
    return sessions(
        "ride_summaries",
        Input(RIDE_POINTS, columns=_POINT),
        {
            "start_time": first("timestamp"),
            "end_time": last("timestamp"),
            "start_status": first("ride_status"),
            "end_status": last("ride_status"),
            "n_points": count(),
            "distance": over_pairs(leg_in_micrometres(*_PLACE)),
            "fare": last("meter_reading"),
            **{f"start_{axis}": first(axis) for axis in _PLACE},
        },
        until=Until(pl.col("ride_status") == "dropoff", parameters.closed_for, at_once=parameters.close == "fast"),
        key="ride_id",
        output=RIDE_SUMMARY,
        gap=Timeout(parameters.timeout, parameters.timeout_in),
        then={
            "ride_duration_in_secs": divided(duration.dt.total_microseconds(), 1e6),
            "reason": pl.when(dropped_off).then(pl.lit("DROPOFF_SEEN")).otherwise(pl.lit("GARBAGE_COLLECTION")),
            "distance_in_metres": divided(pl.col("distance"), 1e6),
        },
        selected=[
            (
                Append(
                    RIDE_SUMMARY,
                    name="long_rides",
                    description="Summaries of the rides longer than `long_ride_threshold`.",
                ),
                is_long,
            )
        ],
    )


RIDE_SUMMARIES = with_parameters(build)
