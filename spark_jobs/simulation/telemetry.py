"""Simulate position, speed, fuel and engine of vehicles.

A vehicle drives, stops at lights, and parks, by turns, on a circle. It reports every 10 s while it drives, and every 60 s while it
stands. All depends only on the vehicle and the time, so a later call continues. One vehicle in ten has no fuel gauge, one
in ten reports neither acceleration nor engine temperature, and one in eight stops reporting while it drives.

One point in 150 while driving is hard braking or acceleration, one vehicle in five falls below ten litres of fuel, and the engine
of one in six is too hot for some minutes. Visits to `GEOFENCES` follow from the circles.
"""

from pathlib import Path

import numpy as np
import polars as pl

from keyfold.times import to_times
from spark_jobs.simulation.feed import SECOND, Ints
from spark_jobs.streams import TELEMETRY

GEOFENCES = Path(__file__).with_name("geofences.geojson")
"""Geofences on the vehicles' circles, for `fleet_warnings`."""

_TICK = 10
_DEPOTS = 1909  # fixed seed, so that a vehicle belongs to the same place in every call
_CENTRE = (52.52, 13.405)
_METRES_A_DEGREE = (111_320.0, 67_800.0)
_LITRES_A_METRE = 0.09 / 1000


def fleet_table(rng: np.random.Generator, vehicles: int, begin: int, end: int) -> pl.DataFrame:
    """Make clean reports of a fleet in which some vehicles fall silent, sorted by time."""
    step = _TICK * SECOND
    table = telemetry_table(rng, vehicles, np.arange(-(-begin // step) * step, end, step, dtype=np.int64))
    silent = [_name(one) for one in rng.choice(vehicles, vehicles // 8, replace=False)]
    # The last point, while it drives, at two thirds of the time.
    until = pl.lit(begin + (end - begin) * 2 // 3)
    time, drives = pl.col("time").cast(pl.Int64), pl.col("speed") > 0
    last = time.filter(drives & (time <= until)).max().over("vehicle_id")
    return table.filter(~pl.col("vehicle_id").is_in(silent) | (time <= last)).sort("time", "vehicle_id")


def telemetry_table(rng: np.random.Generator, vehicles: int, ticks: Ints) -> pl.DataFrame:
    """Make clean reports sorted by vehicle and time; no vehicle stops reporting.

    Args:
        rng: for what is measured with noise.
        vehicles: number of vehicles.
        ticks: times ten seconds apart, in microseconds since 1970.
    """
    of_vehicle = np.random.default_rng(_DEPOTS).random((vehicles, 6)).T[:, :, None]
    north, east, phase, tank, length, pace = of_vehicle
    number = np.arange(vehicles)[:, None]
    # A turn is three quarters of driving, and parking; of each three minutes of driving, half a minute is at lights.
    turn, cruise = 2000 + 1600 * length, 8 + 10 * pace
    seconds = ticks[None, :] / SECOND + phase * turn
    turns, into = np.divmod(seconds, turn)
    parked = into >= 0.75 * turn
    driving = np.minimum(into, 0.75 * turn)
    waits, into_light = np.divmod(driving, 180)
    moves = ~parked & (into_light < 150)
    a_turn = 0.75 * turn // 180 * 150 + np.minimum(0.75 * turn % 180, 150)
    driven = cruise * (turns * a_turn + waits * 150 + np.minimum(into_light, 150))
    # A turn is two circles; after five turns the tank is filled as it was.
    circle = cruise * a_turn / 2
    angle, radius = 2 * np.pi * driven / circle, circle / (2 * np.pi)
    used = driven % (cruise * a_turn * 5) * _LITRES_A_METRE
    fuel = np.maximum(0.5, np.where(number % 5 == 0, 11, 25 + 25 * tank) - used)
    speed = np.where(moves, cruise * 3.6 * rng.uniform(0.9, 1.1, moves.shape), 0.0)
    warm = np.where(parked, 88 * np.exp((0.75 * turn - into) / 3600), 88 - 30 * np.exp(-driving / 240))
    is_hot = (number % 6 == 1) & ~parked & (np.abs(into - 0.4 * turn) < 300)
    heat = np.where(is_hot, 124.0, warm) + rng.normal(0, 0.3, warm.shape)
    hard = np.where(rng.random(speed.shape) < 0.5, rng.uniform(-8, -4, speed.shape), rng.uniform(4, 6, speed.shape))
    gentle = np.clip(rng.normal(0, 0.5, speed.shape), -2.5, 2.5)
    acceleration = np.where(moves, np.where(rng.random(speed.shape) < 1 / 150, hard, gentle), 0.0)
    early = rng.integers(0, 4000, speed.shape, endpoint=True) * 1000
    time = np.maximum(ticks[None, :] - early, ticks[0])
    # A vehicle reports while it moves, when it stops, and at every sixth tick, which differ between vehicles.
    stopped = np.diff(moves, axis=1, prepend=False) & ~moves
    at = np.nonzero(moves | stopped | ((np.arange(len(ticks))[None, :] + number) % 6 == 0))
    latitude = _CENTRE[0] + 0.05 * (north - 0.5) + radius * np.sin(angle) / _METRES_A_DEGREE[0]
    longitude = _CENTRE[1] + 0.1 * (east - 0.5) + radius * np.cos(angle) / _METRES_A_DEGREE[1]
    return pl.DataFrame(
        {
            "vehicle_id": pl.Series([_name(one) for one in range(vehicles)], dtype=pl.String).gather(at[0]),
            "time": to_times(time[at]),
            "latitude": np.round(latitude[at], 6),
            "longitude": np.round(longitude[at], 6),
            "speed": np.round(speed[at], 1),
            "fuel_level": pl.Series(np.round(fuel[at], 2)).set(pl.Series(at[0] % 10 == 9), None),
            "acceleration": pl.Series(np.round(acceleration[at], 2)).set(pl.Series(at[0] % 10 == 8), None),
            "bearing": np.round((-np.degrees(angle) % 360)[at], 1),
            "engine_temperature": pl.Series(np.round(heat[at], 1)).set(pl.Series(at[0] % 10 == 8), None),
        }
    ).select(TELEMETRY.schema.names)


def _name(number: int) -> str:
    return f"vehicle-{number + 1:03}"
