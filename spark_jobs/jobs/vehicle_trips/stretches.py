"""Stretches of a vehicle's points: cut where it stops, moves on or falls silent, and summed up.

A stretch is one or more points in a row: a single point, or what is known of all the points of an open trip or of a
stand. Stretches of one vehicle add up to a longer one, with the legs between them; as all sums are of integers, it does
not matter in which parts they were made.
"""

import polars as pl
import pyarrow as pa

from keyfold.stream import TIMESTAMP
from spark_jobs.jobs.great_circle import great_circle_metres
from spark_jobs.jobs.vehicle_trips.journey_measures import POINTS_AS_STRETCHES

STRETCH = pa.schema(
    [
        pa.field("vehicle_id", pa.string(), nullable=False),
        pa.field("start_time", TIMESTAMP, nullable=False),
        pa.field("end_time", TIMESTAMP),
        pa.field("start_latitude", pa.float64(), nullable=False),
        pa.field("start_longitude", pa.float64(), nullable=False),
        pa.field("end_latitude", pa.float64()),
        pa.field("end_longitude", pa.float64()),
        pa.field("is_moving", pa.bool_(), nullable=False),
        pa.field("top_speed", pa.float64(), nullable=False),
        pa.field("distance", pa.int64()),
        pa.field("moving", pa.int64()),
        pa.field("idle", pa.int64()),
        pa.field("start_fuel", pa.int64()),
        pa.field("first_fuel", pa.int64()),
        pa.field("last_fuel", pa.int64()),
        pa.field("fuel_used", pa.int64()),
        pa.field("start_braking", pa.int64()),
        pa.field("start_accelerating", pa.int64()),
        pa.field("start_heat", pa.float64()),
        pa.field("braking", pa.int64()),
        pa.field("accelerating", pa.int64()),
        pa.field("heat", pa.float64()),
        pa.field("n_points", pa.int64(), nullable=False),
        pa.field("deadline", TIMESTAMP),
    ]
)
"""Points of one vehicle in a row. Without `end_time` it is one point that the watermark has not passed yet.

Distance in micrometres, moving and idle in microseconds, fuel in microlitres: at the first point (`start_fuel`), and the
first and the last that was read. `is_moving` of an open trip (which ends with a point that moves), not of a stand.
`braking` and `accelerating` count its hard points, `heat` is the highest engine temperature; `start_…` of the first point.
"""

POINT_AS_STRETCH = (
    pl.col("end_time").fill_null(pl.col("start_time")),
    pl.col("end_latitude").fill_null(pl.col("start_latitude")),
    pl.col("end_longitude").fill_null(pl.col("start_longitude")),
    pl.when(pl.col("end_time").is_null()).then("start_fuel").otherwise("first_fuel").alias("first_fuel"),
    pl.when(pl.col("end_time").is_null()).then("start_fuel").otherwise("last_fuel").alias("last_fuel"),
    pl.col("distance", "moving", "idle", "fuel_used").fill_null(0),
    *POINTS_AS_STRETCHES,
)
"""Columns that make a point a stretch, and leave a stretch as it is."""

LEG = (
    (
        great_circle_metres(
            pl.col("end_latitude").shift(),
            pl.col("end_longitude").shift(),
            pl.col("start_latitude"),
            pl.col("start_longitude"),
        )
        * 1e6
    )
    .round()
    .fill_null(0)
    .cast(pl.Int64)
)
"""Micrometres from the row before."""
