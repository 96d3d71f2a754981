"""Telemetry: where a vehicle is, how fast, and how much fuel it has."""

import polars as pl
import pyarrow as pa

from spark_jobs.streams.contract import TIMESTAMP, Rule, Source, Stream
from spark_jobs.streams.rules import POSITION, not_empty, outside

STREAM = Stream(
    name="telemetry",
    schema=pa.schema(
        [
            pa.field("vehicle_id", pa.string(), nullable=False),
            pa.field("time", TIMESTAMP, nullable=False),
            pa.field("latitude", pa.float64(), nullable=False),
            pa.field("longitude", pa.float64(), nullable=False),
            pa.field("speed", pa.float64(), nullable=False),
            pa.field("fuel_level", pa.float64()),
        ]
    ),
    event_time="time",
    sources={
        "vehicle_id": Source(("vehicle_id", "vehicle")),
        "time": Source(("time", "timestamp")),
    },
    event_id=("vehicle_id", "time"),
    rules=(
        not_empty("vehicle_id"),
        *POSITION,
        Rule("speed is outside 0 to 400", outside("speed", 0, 400)),
        Rule("fuel_level is negative", pl.col("fuel_level") < 0),
    ),
)
"""Speed in km/h, fuel level in litres."""
