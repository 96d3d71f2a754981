"""Simulate hourly weather of stations as CSV in the layout of nycflights13, with `NA` for missing values.

Temperature has a daily cycle, and pressure drifts over days. Both are functions of time, so a later call continues them. One
pressure value in ten is missing. One station in six stops reporting in the second half, but none of New York's, where rides
begin.
"""

import numpy as np
import polars as pl

from keyfold.times import to_times
from spark_jobs.simulation.contract import DAY, HOUR, Floats, Format, Ints, SimulatedEvents, SimulationRequest
from spark_jobs.simulation.faults import csv_field, csv_time_faults
from spark_jobs.streams import WEATHER

AIRPORTS = {
    "EWR": "Newark NJ",
    "JFK": "Queens NY",
    "LGA": "East Elmhurst NY",
    "BOS": "Boston MA",
    "DCA": "Arlington VA",
    "PHL": "Philadelphia PA",
}
"""The first stations and their locations; further ones are S00006, S00007, … and have no location."""

_NEW_YORK = 3
"""Number of stations in New York, which are the first."""

MISSING_PRESSURE = 0.1

_MEASURED = ("temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip", "pressure", "visib")

_HEADER = ",".join(("origin", "year", "month", "day", "hour", *_MEASURED, "time_hour", "location"))
_CLIMATES = 2013  # fixed seed, so that a station has the same climate in every call
_KNOT = 1.15078


def weather_table(rng: np.random.Generator, stations: int, hours: Ints) -> pl.DataFrame:
    """Make clean readings of every station at every hour, sorted by time.

    Args:
        stations: number of stations.
        hours: full hours, in microseconds since 1970.

    Returns:
        The columns of the stream `weather`: temperatures in °F, humidity in %, wind in degrees and mph, precipitation
        in inches, pressure in hPa, visibility in miles.
    """
    count = stations * len(hours)
    station = np.tile(np.arange(stations), len(hours))
    time = np.repeat(hours, stations)
    climate = np.random.default_rng(_CLIMATES).random((stations, 6))[station].T
    # Local hour in New York without daylight saving, for the daily cycle.
    local = (time / HOUR - 5) % 24
    daily = np.cos(2 * np.pi * (local - 15) / 24)
    temperature = 45 + 25 * climate[0] + (6 + 6 * climate[1]) * daily + 5 * _wave(time, 5.1, climate[2])
    temperature += rng.normal(0, 0.7, count)
    dew_point = temperature - np.clip(9 + 4 * daily + 4 * _wave(time, 2.3, climate[3]) + rng.normal(0, 1, count), 0, 40)
    pressure = 1015 + 8 * _wave(time, 4.3, climate[4]) + 4 * _wave(time, 1.7, climate[5]) + rng.normal(0, 0.2, count)
    knots = np.round(rng.gamma(3.0, 3.0, count))
    gusts = knots > 14
    rain = rng.random(count) < 0.06
    return pl.DataFrame(
        {
            "station_id": pl.Series(_stations(stations), dtype=pl.String).gather(station),
            "time": to_times(time),
            "temp": np.round(temperature, 2),
            "dewp": np.round(dew_point, 2),
            "humid": np.round(100 * _saturation(dew_point) / _saturation(temperature), 2),
            "wind_dir": _or_null(10.0 * rng.integers(1, 36, count, endpoint=True), knots == 0),
            "wind_speed": np.round(knots * _KNOT, 5),
            "wind_gust": _or_null(np.round((knots + 6) * _KNOT, 5), ~gusts),
            "precip": np.round(np.where(rain, rng.exponential(0.05, count), 0.0), 2),
            "pressure": _or_null(np.round(pressure, 1), rng.random(count) < MISSING_PRESSURE),
            "visib": np.where(rain, 3.0, 10.0),
            "location": pl.Series(_locations(stations), dtype=pl.String).gather(station),
        }
    ).select(WEATHER.schema.names)


def _stations(count: int) -> list[str]:
    return [*list(AIRPORTS)[:count], *(f"S{number:05}" for number in range(len(AIRPORTS), count))]


def _locations(count: int) -> list[str | None]:
    return [AIRPORTS.get(station) for station in _stations(count)]


def _wave(time: Ints, days: float, phase: Floats) -> Floats:
    return np.sin(2 * np.pi * (time / (days * DAY) + phase))


def _saturation(fahrenheit: Floats) -> Floats:
    """Return the saturation vapour pressure by Magnus' formula, up to a constant factor."""
    celsius = (fahrenheit - 32) / 1.8
    return np.exp(17.625 * celsius / (243.04 + celsius))


def _or_null(values: np.ndarray, missing: np.ndarray) -> pl.Series:
    return pl.Series(values).set(pl.Series(missing), None)


def make(rng: np.random.Generator, request: SimulationRequest) -> SimulatedEvents:
    """Make the clean events of a call, as lines."""
    table = weather_table(rng, request.size, request.grid(HOUR))
    muted = rng.choice(_stations(request.size)[_NEW_YORK:], request.size // 6, replace=False).tolist()
    span = request.end - request.begin
    last = {station: request.begin + int(rng.uniform(0.5, 0.8) * span) for station in muted}
    falls_silent = pl.col("station_id").replace_strict(last, default=request.end, return_dtype=pl.Int64)
    table = table.filter(pl.col("time").cast(pl.Int64) <= falls_silent)
    local = pl.col("time").dt.convert_time_zone("America/New_York").dt
    fields = [
        pl.col("station_id"),
        *(part.cast(pl.String) for part in (local.year(), local.month(), local.day(), local.hour())),
        *(pl.col(name).cast(pl.String).fill_null("NA") for name in _MEASURED),
        pl.col("time").dt.strftime("%Y-%m-%dT%H:%M:%SZ"),
        pl.col("location").fill_null("NA"),
    ]
    time = pl.col("time").cast(pl.Int64)
    events = table.select(time=time, over=time, key=pl.col("station_id"), csv=pl.concat_str(fields, separator=","))
    return SimulatedEvents(events, (Format("csv", _FAULTS, _HEADER),))


_FAULTS = {
    "too few fields": pl.col("line").str.head(24),
    "no station": csv_field(0, ""),
    "temperature is a word": csv_field(5, "cold"),
    "humidity out of range": csv_field(7, "250"),
    "pressure out of range": csv_field(12, "1.2"),
} | csv_time_faults(14, "2199-12-31T23:00:00Z")
