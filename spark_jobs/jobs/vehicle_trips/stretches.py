"""Represent a vehicle's points as stretches.

A stretch is one or more consecutive points: a single point, or the sums of all points of an open trip or a stand. Stretches of
one vehicle, with the legs between them, add up to a longer stretch. All sums are of integers, so the order of adding does not
matter.
"""

import polars as pl
import pyarrow as pa

from keyfold.columns import plain_columns
from keyfold.stream import TIMESTAMP
from spark_jobs.jobs.motion import leg_in_micrometres

STRETCH = pa.schema(
    [
        pa.field("vehicle_id", pa.string(), nullable=False),
        pa.field("start_time", TIMESTAMP, nullable=False),
        pa.field("end_time", TIMESTAMP),
        *plain_columns(pa.float64(), "start_latitude", "start_longitude", nullable=False),
        *plain_columns(pa.float64(), "end_latitude", "end_longitude"),
        pa.field("is_moving", pa.bool_(), nullable=False),
        pa.field("top_speed", pa.float64(), nullable=False),
        *plain_columns(pa.int64(), "distance", "moving", "idle", "start_fuel", "first_fuel", "last_fuel", "fuel_used"),
        *plain_columns(pa.int64(), "start_braking", "start_accelerating"),
        pa.field("start_heat", pa.float64()),
        *plain_columns(pa.int64(), "braking", "accelerating"),
        pa.field("heat", pa.float64()),
        pa.field("n_points", pa.int64(), nullable=False),
        pa.field("deadline", TIMESTAMP),
    ]
)
"""Consecutive points of one vehicle. Without `end_time` it is one point that the watermark has not passed yet.

Distance is in micrometres, moving and idle time in microseconds, fuel in microlitres: `start_fuel` is that of the first point;
the others are the first and the last reading. `is_moving` is true for an open trip (which ends with a moving point), false for
a stand. `braking` and `accelerating` count hard points, `heat` is the highest engine temperature; `start_…` are the values of
the first point.
"""

POINT_AS_STRETCH = (
    pl.col("end_time").fill_null(pl.col("start_time")),
    pl.col("end_latitude").fill_null(pl.col("start_latitude")),
    pl.col("end_longitude").fill_null(pl.col("start_longitude")),
    *(
        pl.when(pl.col("end_time").is_null()).then(of_first).otherwise(name).alias(name)
        for name, of_first in (
            ("first_fuel", "start_fuel"),
            ("last_fuel", "start_fuel"),
            ("braking", "start_braking"),
            ("accelerating", "start_accelerating"),
            ("heat", "start_heat"),
        )
    ),
    pl.col("distance", "moving", "idle", "fuel_used").fill_null(0),
)
"""Columns that turn a point into a stretch, and do not change a stretch."""

TOTALS = (
    pl.col("n_points").sum(),
    pl.col("top_speed", "heat").max(),
    pl.col("first_fuel").drop_nulls().first(),
    pl.col("last_fuel").drop_nulls().last(),
    # NULL if no point has a value.
    *(pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()) for name in ("braking", "accelerating")),
)
"""Columns of a longer stretch, from those of the stretches that it consists of, in order of time."""

LEG = leg_in_micrometres(
    pl.col("end_latitude").shift(), pl.col("end_longitude").shift(), pl.col("start_latitude"), pl.col("start_longitude")
)
"""Distance from the previous row in micrometres."""
