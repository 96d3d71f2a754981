"""Weather: hourly readings of stations."""

import pyarrow as pa

from spark_jobs.streams.contract import TIMESTAMP, Rule, Source, Stream
from spark_jobs.streams.rules import not_empty, outside

STREAM = Stream(
    name="weather",
    schema=pa.schema(
        [
            pa.field("station_id", pa.string(), nullable=False),
            pa.field("time", TIMESTAMP, nullable=False),
            pa.field("temp", pa.float64()),
            pa.field("dewp", pa.float64()),
            pa.field("humid", pa.float64()),
            pa.field("wind_dir", pa.float64()),
            pa.field("wind_speed", pa.float64()),
            pa.field("wind_gust", pa.float64()),
            pa.field("precip", pa.float64()),
            pa.field("pressure", pa.float64()),
            pa.field("visib", pa.float64()),
        ]
    ),
    event_time="time",
    sources={
        "station_id": Source(("station_id", "origin")),
        "time": Source(("time", "time_hour", "timestamp")),
    },
    ignored=("year", "month", "day", "hour"),
    missing=("NA",),
    event_id=("station_id", "time"),
    rules=(
        not_empty("station_id"),
        Rule("humid is outside 0 to 110", outside("humid", 0, 110)),
        Rule("pressure is outside 800 to 1100", outside("pressure", 800, 1100)),
        Rule("temp is outside -150 to 160", outside("temp", -150, 160)),
    ),
)
