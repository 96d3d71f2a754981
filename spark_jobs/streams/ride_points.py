"""The ride points stream: positions and meter readings of taxis during rides."""

import polars as pl
import pyarrow as pa

from keyfold import TIMESTAMP, Rule, Stream, column, not_empty, required
from spark_jobs.streams.position_rules import POSITION

STATUSES = ("pickup", "enroute", "dropoff")

STREAM = Stream(
    name="ride_points",
    description="Valid ride points, each once: typed, checked, de-duplicated by ride and point number.",
    schema=pa.schema(
        [
            required("ride_id", pa.string(), "Ride that the point belongs to"),
            required("point_idx", pa.int32(), "Number of the point in its ride, from 0"),
            required("latitude", pa.float64(), "Latitude, WGS 84", unit="degrees north"),
            required("longitude", pa.float64(), "Longitude, WGS 84", unit="degrees east"),
            required("timestamp", TIMESTAMP, "Event time: when the point was taken (UTC)"),
            column("meter_reading", pa.float64(), "Fare on the meter so far"),
            column("meter_increment", pa.float64(), "Fare added a point"),
            required("ride_status", pa.string(), "pickup, enroute or dropoff"),
            column("passenger_count", pa.int32(), "Passengers aboard"),
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
