"""The telemetry stream: position, speed, bearing, acceleration, fuel and engine temperature of vehicles."""

import polars as pl
import pyarrow as pa

from keyfold import TIMESTAMP, Rule, Source, Stream, column, not_empty, outside, required
from spark_jobs.streams.position_rules import POSITION

STREAM = Stream(
    name="telemetry",
    description="Valid points of vehicles, each once: typed, checked, de-duplicated by vehicle and time.",
    schema=pa.schema(
        [
            required("vehicle_id", pa.string(), "Vehicle that sent the point"),
            required("time", TIMESTAMP, "Event time: when the point was taken (UTC)"),
            required("latitude", pa.float64(), "Latitude, WGS 84", unit="degrees north"),
            required("longitude", pa.float64(), "Longitude, WGS 84", unit="degrees east"),
            required("speed", pa.float64(), "Speed", unit="km/h"),
            column("fuel_level", pa.float64(), "Fuel in the tank", unit="litres"),
            column("acceleration", pa.float64(), "Acceleration along the way; negative when braking", unit="m/s²"),
            column("bearing", pa.float64(), "Direction of travel, clockwise from north, 0 to 360", unit="degrees"),
            column("engine_temperature", pa.float64(), "Temperature of the engine's coolant", unit="°C"),
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
        # Ten times what brakes can achieve.
        Rule("acceleration is outside -100 to 100", outside("acceleration", -100, 100)),
        Rule("bearing is outside 0 to 360", outside("bearing", 0, 360)),
        Rule("engine_temperature is outside -90 to 300", outside("engine_temperature", -90, 300)),
    ),
)
