"""Simulate hourly weather of stations, and metrics with a value every five minutes.

All are waves in time with noise, whose parameters depend only on the key, so a later call continues them. One pressure value in
ten is missing, and one station in six stops reporting in the second half, but none of New York's, where rides begin. In one
metric of three, a few values in the second half are twice as high as usual.
"""

import numpy as np
import polars as pl

from keyfold.times import to_times
from spark_jobs.simulation.feed import DAY, HOUR, MINUTE, Floats, Ints
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

_CLIMATES, _CHARACTERS = 2013, 288
"""Fixed seeds, so that a key has the same parameters in every call."""


def weather_table(rng: np.random.Generator, stations: int, begin: int, end: int) -> pl.DataFrame:
    """Make clean readings of every station at every full hour, sorted by time, with the columns of the stream `weather`."""
    hours = np.arange(-(-begin // HOUR) * HOUR, end, HOUR, dtype=np.int64)
    station, time = np.tile(np.arange(stations), len(hours)), np.repeat(hours, stations)
    count = len(time)
    ids = [*list(AIRPORTS)[:stations], *(f"S{number:05}" for number in range(len(AIRPORTS), stations))]
    climate = np.random.default_rng(_CLIMATES).random((stations, 3))[station].T
    temperature = 45 + 25 * climate[0] + 9 * _wave(time, 1, 0.4) + 5 * _wave(time, 5.1, climate[1])
    temperature += rng.normal(0, 0.7, count)
    humidity = rng.uniform(30, 100, count)
    knots = np.round(rng.gamma(3.0, 3.0, count))
    rain = rng.random(count) < 0.06
    pressure = 1015 + 8 * _wave(time, 4.3, climate[2]) + rng.normal(0, 0.2, count)
    table = pl.DataFrame(
        {
            "station_id": pl.Series(ids, dtype=pl.String).gather(station),
            "time": to_times(time),
            "temp": np.round(temperature, 2),
            "dewp": np.round(temperature - (100 - humidity) / 3, 2),
            "humid": np.round(humidity, 2),
            "wind_dir": _or_null(10.0 * rng.integers(1, 36, count, endpoint=True), knots == 0),
            "wind_speed": np.round(knots * 1.15078, 5),
            "wind_gust": _or_null(np.round((knots + 6) * 1.15078, 5), knots <= 14),
            "precip": np.round(np.where(rain, rng.exponential(0.05, count), 0.0), 2),
            "pressure": _or_null(np.round(pressure, 1), rng.random(count) < 0.1),
            "visib": np.where(rain, 3.0, 10.0),
            "location": pl.Series([AIRPORTS.get(one) for one in ids], dtype=pl.String).gather(station),
        }
    ).select(WEATHER.schema.names)
    silent = rng.permutation(np.arange(_NEW_YORK, stations))[: stations // 6]
    return table.filter(pl.Series(~np.isin(station, silent) | (time < (begin + end) // 2)))


def metrics_table(rng: np.random.Generator, series: int, begin: int, end: int) -> pl.DataFrame:
    """Make clean values of every series every five minutes, sorted by time, with the columns of the stream `metrics`."""
    times = np.arange(-(-begin // (5 * MINUTE)) * 5 * MINUTE, end, 5 * MINUTE, dtype=np.int64)
    level, swing, phase = np.random.default_rng(_CHARACTERS).random((series, 3)).T[:, :, None]
    level = 20 + 60 * level
    daily = (0.1 + 0.2 * swing) * np.sin(2 * np.pi * (times / DAY + phase))
    values = level * (1 + daily + rng.normal(0, 0.015, (series, len(times))))
    for row in rng.permutation(series)[: max(1, series // 3)]:
        begins = int(rng.uniform(0.5, 0.9) * len(times))
        values[row, begins : begins + 3] *= 2
    keys = pl.Series([f"servers/host-{number:05}" for number in range(series)], dtype=pl.String)
    return pl.DataFrame(
        {
            "key": keys.gather(np.tile(np.arange(series), len(times))),
            "timestamp": to_times(np.repeat(times, series)),
            "value": np.round(values.T.ravel(), 3),
        }
    )


def _wave(time: Ints, days: float, phase: Floats | float) -> Floats:
    return np.sin(2 * np.pi * (time / (days * DAY) + phase))


def _or_null(values: np.ndarray, missing: np.ndarray) -> pl.Series:
    return pl.Series(values).set(pl.Series(missing), None)
