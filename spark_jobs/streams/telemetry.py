"""Telemetry: where a vehicle is, how fast, and how much fuel it has."""

import polars as pl
import pyarrow as pa

from spark_jobs.columns import column
from spark_jobs.streams.contract import TIMESTAMP, Rule, Source, Stream
from spark_jobs.streams.rules import POSITION, not_empty, outside

STREAM = Stream(
    name="telemetry",
    description="Valid points of vehicles, each once: typed, checked, de-duplicated by vehicle and time.",
    schema=pa.schema(
        [
            column("vehicle_id", pa.string(), "Vehicle that sent the point", nullable=False),
            column("time", TIMESTAMP, "Event time: when the point was taken (UTC)", nullable=False),
            column("latitude", pa.float64(), "Latitude, WGS 84", unit="degrees north", nullable=False),
            column("longitude", pa.float64(), "Longitude, WGS 84", unit="degrees east", nullable=False),
            column("speed", pa.float64(), "Speed", unit="km/h", nullable=False),
            column("fuel_level", pa.float64(), "Fuel in the tank", unit="litres"),
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
