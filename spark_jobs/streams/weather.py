"""The weather stream: hourly readings of stations."""

import pyarrow as pa

from keyfold import TIMESTAMP, Rule, Source, Stream, column, not_empty, outside, required

STREAM = Stream(
    name="weather",
    description="Valid readings of weather stations, each once: typed, checked, de-duplicated by station and hour.",
    schema=pa.schema(
        [
            required("station_id", pa.string(), "Station that took the reading"),
            required("time", TIMESTAMP, "Event time: the hour of the reading (UTC)"),
            column("temp", pa.float64(), "Temperature", unit="°F"),
            column("dewp", pa.float64(), "Dew point", unit="°F"),
            column("humid", pa.float64(), "Relative humidity", unit="%"),
            column("wind_dir", pa.float64(), "Direction the wind comes from", unit="degrees"),
            column("wind_speed", pa.float64(), "Wind speed", unit="miles an hour"),
            column("wind_gust", pa.float64(), "Wind gusts", unit="miles an hour"),
            column("precip", pa.float64(), "Precipitation", unit="inches"),
            column("pressure", pa.float64(), "Pressure at sea level", unit="hPa"),
            column("visib", pa.float64(), "Visibility", unit="miles"),
            column("location", pa.string(), "Location of the station, by its readings"),
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
