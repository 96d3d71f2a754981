"""Ride points: where a taxi is on its ride, and what its meter shows."""

import polars as pl
import pyarrow as pa

from spark_jobs.streams.contract import TIMESTAMP, Rule, Stream
from spark_jobs.streams.rules import POSITION, not_empty

STATUSES = ("pickup", "enroute", "dropoff")

STREAM = Stream(
    name="ride_points",
    schema=pa.schema(
        [
            pa.field("ride_id", pa.string(), nullable=False),
            pa.field("point_idx", pa.int32(), nullable=False),
            pa.field("latitude", pa.float64(), nullable=False),
            pa.field("longitude", pa.float64(), nullable=False),
            pa.field("timestamp", TIMESTAMP, nullable=False),
            pa.field("meter_reading", pa.float64()),
            pa.field("meter_increment", pa.float64()),
            pa.field("ride_status", pa.string(), nullable=False),
            pa.field("passenger_count", pa.int32()),
        ]
    ),
    event_time="timestamp",
    event_id=("ride_id", "point_idx"),
    rules=(
        not_empty("ride_id"),
        *POSITION,
        Rule(f"ride_status is none of {', '.join(STATUSES)}", ~pl.col("ride_status").is_in(STATUSES)),
        Rule("point_idx is negative", pl.col("point_idx") < 0),
    ),
)
