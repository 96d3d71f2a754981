"""Ride summaries: one row a ride, when it has dropped its passengers off or fallen silent.

State holds every point of an open ride, so that distance is exact whatever the order of arrival, and one marker row for
a ride that has closed, so that its stragglers are known as late.

How a ride closes:

- `fast`: at its first dropoff, as soon as that point is seen; else when the watermark has passed its last point by
  `timeout`. What arrives out of order after the close is late.
- `complete`: as the points lie in event time, whatever order they came in: at the first dropoff, or at the first
  silence longer than `timeout`, once the watermark has passed that. Any order of arrival and any split into
  micro-batches gives the same summary.

A closed ride stays closed for `closed_for` of event time; its points until then go to `late.ride_summaries`.
"""

from datetime import timedelta
from typing import Literal, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
from pydantic import Field

from spark_jobs.jobs.great_circle import great_circle_metres
from spark_jobs.jobs.parameters import Duration, JobParameters
from spark_jobs.keyed.codec import empty
from spark_jobs.keyed.contract import Clock, JobTemplate, KeyedJob, OutputTable, Step
from spark_jobs.streams import RIDE_POINTS, TIMESTAMP

RIDE_POINT = pa.schema(
    [
        RIDE_POINTS.schema.field(column)
        for column in (
            "ride_id",
            "point_idx",
            "latitude",
            "longitude",
            "timestamp",
            "meter_reading",
            "ride_status",
        )
    ]
)

OPEN_RIDE = pa.schema(
    [
        pa.field("ride_id", pa.string(), nullable=False),
        pa.field("point_idx", pa.int32()),
        pa.field("latitude", pa.float64()),
        pa.field("longitude", pa.float64()),
        pa.field("timestamp", TIMESTAMP),
        pa.field("meter_reading", pa.float64()),
        pa.field("ride_status", pa.string()),
        pa.field("closed_at", TIMESTAMP),
        pa.field("deadline", TIMESTAMP),
    ]
)
"""A point of an open ride, or (with `closed_at`) the marker of a closed one."""

RIDE_SUMMARY = pa.schema(
    [
        pa.field("ride_id", pa.string(), nullable=False),
        pa.field("start_time", TIMESTAMP, nullable=False),
        pa.field("end_time", TIMESTAMP, nullable=False),
        pa.field("start_status", pa.string(), nullable=False),
        pa.field("end_status", pa.string(), nullable=False),
        pa.field("ride_duration_in_secs", pa.float64(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("n_points", pa.int64(), nullable=False),
        pa.field("distance_in_metres", pa.float64(), nullable=False),
        pa.field("fare", pa.float64()),
    ]
)


class RideSummaryParameters(JobParameters):
    """Parameters of `ride_summaries`."""

    close: Literal["fast", "complete"] = Field(
        "fast",
        description="fast: a ride closes as soon as its dropoff is seen. complete: it waits until the watermark has "
        "passed the dropoff, so that points which came out of order are counted.",
    )
    timeout: Duration = Field(timedelta(minutes=30), description="Event time after a ride's last point when it closes")
    long_ride_threshold: Duration = Field(timedelta(hours=1), description="Rides longer than this are in long_rides")
    watermark_delay: Duration = Field(timedelta(minutes=10), description="How far out of order points may come")
    closed_for: Duration = Field(
        timedelta(days=1), description="Event time for which a closed ride is remembered, to know its late points"
    )
    idle_after: Duration = Field(
        timedelta(hours=2), description="Processing time without new points after which runs advance event time"
    )


def build(parameters: RideSummaryParameters) -> KeyedJob:
    """Make the job of its parameters."""

    def step(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
        return summarise(state, events, clock, parameters)

    return KeyedJob(
        name="ride_summaries",
        stream=RIDE_POINTS.name,
        key=("ride_id",),
        event_time="timestamp",
        watermark_delay=parameters.watermark_delay,
        events=RIDE_POINT,
        state=OPEN_RIDE,
        output=RIDE_SUMMARY,
        step=step,
        step_decides_late=True,
        side_outputs=(OutputTable("long_rides", RIDE_SUMMARY),),
        idle_after=parameters.idle_after,
        key_groups=parameters.key_groups,
        output_events=pl.col("n_points").sum(),
        state_events=pl.col("timestamp").count(),
        parameters=parameters.model_dump(mode="json"),
    )


RIDE_SUMMARIES = JobTemplate(
    name="ride_summaries",
    description="One row a ride: when and where in time it ran, why it closed, how far and for how much.",
    parameters=RideSummaryParameters,
    build=build,
)


def summarise(state: pl.DataFrame, events: pl.DataFrame, clock: Clock, parameters: RideSummaryParameters) -> Step:
    """The step: see the module's text. Every point ends in one summary, in state, or among the late."""
    is_marker = pl.col("closed_at").is_not_null()
    markers = state.filter(is_marker).select("ride_id", "closed_at")
    is_late = events["timestamp"] <= clock.late_watermark
    points = pl.concat([state.filter(~is_marker).select(RIDE_POINT.names), events.filter(~is_late)])
    closed, still_open, late = [], [], [events.filter(is_late)]
    # More than once only where a ride's id comes back after it has been closed for `closed_for`.
    while points.height:
        points, stragglers = _part_stragglers(points, markers, parameters.closed_for)
        late.append(stragglers)
        parts = _close(points, clock, parameters)
        closed.append(parts.closed.select(RIDE_SUMMARY.names))
        still_open.append(parts.still_open)
        markers = pl.concat(
            [markers.join(parts.closed, on="ride_id", how="anti"), parts.closed.select("ride_id", "closed_at")]
        )
        points = parts.left_over
    output = pl.concat([empty(RIDE_SUMMARY), *closed])
    needed = markers.with_columns(deadline=pl.col("closed_at") + parameters.closed_for)
    needed = needed.filter(pl.col("deadline") > clock.watermark)
    is_long = pl.col("ride_duration_in_secs") > parameters.long_ride_threshold.total_seconds()
    return Step(
        state=pl.concat([empty(OPEN_RIDE), *still_open, needed], how="diagonal"),
        output=output,
        late=pl.concat([empty(RIDE_POINT), *late]),
        side={"long_rides": output.filter(is_long)},
    )


class _Parts(NamedTuple):
    """Rides that close now (`RIDE_SUMMARY` and `closed_at`), points of open rides, points after a close."""

    closed: pl.DataFrame
    still_open: pl.DataFrame
    left_over: pl.DataFrame


def _part_stragglers(
    points: pl.DataFrame, markers: pl.DataFrame, closed_for: timedelta
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Part points from those of rides that have closed."""
    if not markers.height:
        return points, points.clear()
    closed_at = points.select("ride_id").join(markers, on="ride_id", how="left", maintain_order="left")["closed_at"]
    is_straggler = (points["timestamp"] <= closed_at + closed_for).fill_null(value=False)
    return points.filter(~is_straggler), points.filter(is_straggler)


def _close(points: pl.DataFrame, clock: Clock, parameters: RideSummaryParameters) -> _Parts:
    """Find out where each ride closes, or would if nothing more came, and close those whose time has come."""
    ordered = points.sort("timestamp", "point_idx").with_row_index("row")
    rides = ordered.group_by("ride_id").agg(*_RIDE)
    goes_on = (pl.col("first_dropoff") + 1 < pl.col("n_points")).fill_null(value=False)
    goes_on = goes_on | (pl.col("end_time") - pl.col("start_time") > parameters.timeout)
    longer = rides.filter(goes_on)
    if longer.height:
        heads = _until_close(ordered[longer["row"].explode()], parameters)
        rides = pl.concat([rides.filter(~goes_on), heads.group_by("ride_id").agg(*_RIDE)])
    dropped_off = pl.col("first_dropoff").is_not_null()
    rides = rides.with_columns(
        closed_at=pl.when(dropped_off).then("end_time").otherwise(pl.col("end_time") + parameters.timeout),
        reason=pl.when(dropped_off).then(pl.lit("DROPOFF_SEEN")).otherwise(pl.lit("GARBAGE_COLLECTION")),
        # By numpy: Polars multiplies by 1e-6 in place of dividing, which is off by one bit now and then.
        ride_duration_in_secs=(rides["end_time"] - rides["start_time"]).dt.total_microseconds().to_numpy() / 1e6,
    )
    closes = pl.col("closed_at") <= clock.watermark
    if parameters.close == "fast":
        closes = closes | dropped_off
    closed = rides.filter(closes)
    summarised = np.zeros(ordered.height, dtype=bool)
    summarised[closed["row"].explode().drop_nulls().to_numpy()] = True
    rest = ordered.filter(pl.Series(~summarised)).drop("row")
    deadlines = rides.filter(~closes).select("ride_id", deadline="closed_at")
    return _Parts(
        closed=closed,
        still_open=rest.join(deadlines, on="ride_id"),
        left_over=rest.join(closed, on="ride_id", how="semi") if longer.height else rest.clear(),
    )


def _until_close(ordered: pl.DataFrame, parameters: RideSummaryParameters) -> pl.DataFrame:
    """Of points that lie ride by ride in time order, those up to the one after which their ride closes."""
    silence = pl.col("timestamp").shift(-1).over("ride_id") - pl.col("timestamp")
    longest = parameters.timeout
    if parameters.close == "fast":
        # The watermark follows a run's points by the delay: had they come one by one, the ride would have closed only
        # when it had been silent for so long.
        longest += parameters.watermark_delay
    is_last = _IS_DROPOFF | (silence > longest).fill_null(value=False)
    marked = ordered.with_columns(is_last=is_last.cast(pl.Int32))
    return marked.filter(pl.col("is_last").cum_sum().over("ride_id") - pl.col("is_last") == 0).drop("is_last")


_IS_DROPOFF = pl.col("ride_status") == "dropoff"

_LEG = great_circle_metres(
    pl.col("latitude").shift(), pl.col("longitude").shift(), pl.col("latitude"), pl.col("longitude")
)
"""Metres from the point before."""

_RIDE = (
    pl.col("timestamp").first().alias("start_time"),
    pl.col("timestamp").last().alias("end_time"),
    pl.col("ride_status").first().alias("start_status"),
    pl.col("ride_status").last().alias("end_status"),
    pl.len().cast(pl.Int64).alias("n_points"),
    _LEG.sum().alias("distance_in_metres"),
    pl.col("meter_reading").last().alias("fare"),
    pl.when(_IS_DROPOFF.any()).then(_IS_DROPOFF.arg_max()).cast(pl.Int64).alias("first_dropoff"),
    pl.col("row"),
)
"""What is known of a ride from its points in time order; `row` lists them."""
