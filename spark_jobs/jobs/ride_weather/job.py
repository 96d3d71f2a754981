"""Join each ride with the reading of its nearest weather station at the ride's start.

An as-of join (`as_of_join`) of the table of `ride_summaries` with the stream `weather`. The key is the station nearest to the
ride's start. A ride gets that station's newest reading at or before its start, at most `within` old, or NULL.

A ride is written when the watermarks of both inputs have passed its start. `ride_summaries` writes a ride when it has closed,
so its start may be behind that job's watermark by up to `longest_ride`. A ride that began earlier is late, and goes to
`late.ride_weather`. So does a reading at or behind the watermark; it changes no written ride.

The stations are read when the job is configured, and belong to the generation: a changed file requires a refresh.
"""

import os
from datetime import timedelta

import polars as pl
import pyarrow as pa
from pydantic import Field

from keyfold import (
    Delay,
    Duration,
    FilePath,
    Input,
    JobParameters,
    KeyedJob,
    parameter,
    passed_on,
    required,
    with_parameters,
)
from keyfold.operators import as_of_join
from spark_jobs.jobs.ride_summaries import RIDE_SUMMARIES, RIDE_SUMMARY
from spark_jobs.jobs.ride_weather.stations import AIRPORTS, fingerprint, load_stations, nearest_station
from spark_jobs.streams import WEATHER

_OF_A_RIDE = (
    "ride_id",
    "start_time",
    "start_latitude",
    "start_longitude",
    "ride_duration_in_secs",
    "distance_in_metres",
    "fare",
)
_OF_A_READING = ("time", "temp", "dewp", "humid", "wind_speed", "wind_gust", "precip", "pressure", "visib")

RIDE = pa.schema(
    [
        required(
            "station_id",
            pa.string(),
            "Weather station nearest to its start; empty if none is near, or the place is unknown",
            lineage="start_latitude start_longitude",
        ),
        *passed_on(pa.schema([RIDE_SUMMARY.field(name) for name in _OF_A_RIDE])),
    ]
)
READING = pa.schema(passed_on(pa.schema([WEATHER.schema.field(name) for name in ("station_id", *_OF_A_READING)])))


class RideWeatherParameters(JobParameters):
    """Parameters of `ride_weather`."""

    # The content of the file belongs to the generation, not its path.
    stations: FilePath = parameter(
        default_factory=lambda: os.environ.get("KEYFOLD_WEATHER_STATIONS", ""),
        description="Path of a CSV file with station_id, latitude, longitude [default: KEYFOLD_WEATHER_STATIONS]; without one, "
        "six airports of the US east coast are used",
        change="free",
    )
    farthest: float = Field(50_000.0, gt=0, description="Longest distance in metres from a ride's start to its station")
    within: Duration = Field(timedelta(hours=2), description="Largest age of a reading at the ride's start")
    longest_ride: Delay = parameter(
        timedelta(hours=3),
        description="How far a ride's start may be behind the watermark of ride_summaries: its duration plus the timeout that "
        "closes it",
        change="migrate",
    )
    delay: Delay = Field(
        timedelta(hours=1), description="How far out of order readings may come: one round of hourly readings"
    )
    # It changes no row of state.
    idle_timeout: Duration = parameter(
        timedelta(days=1),
        description="Processing time without new readings after which rides do not wait for them",
        change="free",
    )


def build(parameters: RideWeatherParameters) -> KeyedJob:
    """Each ride with the weather of the station nearest to its start, as it was when the ride began.

    Raises:
        KeyfoldError: the file of stations cannot be read or is invalid.
    """
    stations = load_stations(parameters.stations) if parameters.stations else AIRPORTS
    station = nearest_station(stations, pl.col("start_latitude"), pl.col("start_longitude"), parameters.farthest)
    rides = Input(
        RIDE_SUMMARIES.table().derive(station_id=station),
        "start_time",
        delay=parameters.longest_ride,
        columns=RIDE,
    )
    readings = Input(WEATHER, delay=parameters.delay, columns=READING, idle_timeout=parameters.idle_timeout)
    return as_of_join(
        "ride_weather",
        ("rides", rides),
        readings,
        "station_id",
        within=parameters.within,
        contents={"stations": fingerprint(stations)},
    )


RIDE_WEATHER = with_parameters(build)
