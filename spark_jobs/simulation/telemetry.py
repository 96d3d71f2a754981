"""Simulate position, speed, fuel and engine of vehicles, one JSON object per line.

A vehicle drives, waits at lights, and parks, where it refuels. It reports about every 10 s while it drives, and every 60 s
while it stands. Its round begins and ends at its depot with the same fuel level, so a later call continues the round. One
vehicle in ten has no fuel gauge, one in ten reports neither acceleration nor engine temperature, and one in eight stops
reporting while it drives.

Planted warnings: one point in 150 while driving is hard braking or acceleration, one vehicle in five drives until it has little
fuel, and the engine of one in six is too hot for ten minutes. Visits to `GEOFENCES` are not planted; they follow from the
rounds.
"""

from pathlib import Path

import numpy as np
import polars as pl

from keyfold.times import to_times
from spark_jobs.simulation.contract import SECOND, Floats, Format, Ints, SimulatedEvents, SimulationRequest
from spark_jobs.simulation.faults import json_faults, json_field
from spark_jobs.streams import TELEMETRY

TICK = 10
"""Seconds between two reports of a driving vehicle; a standing one takes six times as long."""

GEOFENCES = Path(__file__).with_name("geofences.geojson")
"""Geofences on the vehicles' rounds, for `fleet_warnings`."""

GENTLE = 2.5
"""The highest usual acceleration in m/s²; a hard one is at least 4."""

LITTLE_FUEL = 10.0
"""Low fuel level in litres; every fifth vehicle falls below it."""

TOO_HOT = 110.0
"""High engine temperature in °C; one engine in six exceeds it."""

ROUND = 12_000.0
"""Approximate length of a round from and to the depot, in metres."""

_LITRES_A_METRE = 0.09 / 1000
_FILLED_AT_ONCE = 5.0
_AMBIENT, _WARM, _OVERHEATED = 15.0, 88.0, 124.0
_DEPOTS = 1909  # seeds where a vehicle belongs, whatever the call
_CENTRE = (52.52, 13.405)
_METRES_A_DEGREE = (111_320.0, 67_800.0)


def telemetry_table(rng: np.random.Generator, vehicles: int, ticks: Ints) -> pl.DataFrame:
    """Make clean reports sorted by vehicle and time; no vehicle stops reporting.

    Args:
        vehicles: number of vehicles.
        ticks: times ten seconds apart, in microseconds since 1970.

    Returns:
        The columns of the stream `telemetry`: speed in km/h, fuel in litres, acceleration in m/s², bearing in degrees,
        temperature in °C.
    """
    speed, parked = _speeds(rng, vehicles, len(ticks))
    driven = np.cumsum(speed * (TICK / 3.6), axis=1)
    latitude, longitude, bearing = _on_the_round(driven)
    fuel = _fuel(driven, parked)
    acceleration = _acceleration(rng, speed)
    heat = _engine_temperature(rng, parked)
    early = rng.integers(0, 4000, speed.shape, endpoint=True) * 1000
    time = np.maximum(ticks[None, :] - early, ticks[0])
    # A vehicle reports while it moves, when it stops, and at every sixth tick, which differ between vehicles.
    moving = speed > 0
    stopped = np.diff(moving, axis=1, prepend=False) & ~moving
    turn = (np.arange(len(ticks))[None, :] + np.arange(vehicles)[:, None]) % 6 == 0
    at = np.nonzero(moving | stopped | turn)
    return pl.DataFrame(
        {
            "vehicle_id": pl.Series(_vehicles(vehicles), dtype=pl.String).gather(at[0]),
            "time": to_times(time[at]),
            "latitude": np.round(latitude[at], 6),
            "longitude": np.round(longitude[at], 6),
            "speed": np.round(speed[at], 1),
            "fuel_level": pl.Series(np.round(fuel[at], 2)).set(pl.Series(at[0] % 10 == 9), None),
            "acceleration": pl.Series(np.round(acceleration[at], 2)).set(pl.Series(at[0] % 10 == 8), None),
            "bearing": np.round(bearing[at], 1),
            "engine_temperature": pl.Series(np.round(heat[at], 1)).set(pl.Series(at[0] % 10 == 8), None),
        }
    ).select(TELEMETRY.schema.names)


def _vehicles(count: int) -> list[str]:
    return [f"vehicle-{number:03}" for number in range(1, count + 1)]


def _speeds(rng: np.random.Generator, vehicles: int, ticks: int) -> tuple[Floats, np.ndarray]:
    """Return speed in km/h, and whether it is parked, of each vehicle at each tick. Standing and driving alternate."""
    turns = 2 + 2 * (ticks * TICK // 60)  # a wait and a drive together take a minute at least
    lasts = np.empty((vehicles, turns))
    parks = rng.random((vehicles, turns)) < 0.25
    parks[:, 0] = True
    waits = rng.uniform(20, 90, (vehicles, turns))
    lasts[:] = np.where(parks, rng.uniform(300, 1500, (vehicles, turns)), waits)
    lasts[:, 1::2] = np.clip(rng.exponential(150, lasts[:, 1::2].shape), 40, 900)
    lasts[:, 0] *= rng.random(vehicles)
    ends = np.cumsum(lasts, axis=1)
    beyond = ends[:, -1].max() + ticks * TICK
    # Separates the times of the vehicles, so that one search serves them all.
    offset = np.arange(vehicles)[:, None] * beyond
    seconds = np.arange(ticks) * float(TICK)
    flat = np.searchsorted((ends + offset).ravel(), (seconds[None, :] + offset).ravel(), side="right")
    turn = flat.reshape(vehicles, ticks) - np.arange(vehicles)[:, None] * turns
    row = np.arange(vehicles)[:, None]
    end, length = ends[row, turn], lasts[row, turn]
    drives = turn % 2 == 1
    cruise = rng.uniform(20, 75, (vehicles, turns))[row, turn]
    ramp = np.minimum(1.0, np.minimum(seconds[None, :] - (end - length) + 5, end - seconds[None, :] + 5) / 20)
    speed: Floats = np.where(drives, np.maximum(3.0, cruise * ramp * rng.uniform(0.9, 1.1, ramp.shape)), 0.0)
    return speed.round(1), ~drives & parks[row, turn]


def _on_the_round(driven: Floats) -> tuple[Floats, Floats, Floats]:
    """Return latitude, longitude and bearing after these metres on a circle through the depot; the total is whole rounds."""
    vehicles = len(driven)
    depot = np.random.default_rng(_DEPOTS).random((vehicles, 3))[:, :, None]
    total = driven[:, -1:]
    # The radius is such that the distance driven is a whole number of rounds.
    radius = total / np.maximum(1, np.round(total / ROUND)) / (2 * np.pi)
    begin = 2 * np.pi * depot[:, 2]
    angle = begin + driven / np.maximum(radius, 1.0)
    north = radius * (np.sin(angle) - np.sin(begin))
    east = radius * (np.cos(angle) - np.cos(begin))
    latitude = _CENTRE[0] + 0.1 * (depot[:, 0] - 0.5) + north / _METRES_A_DEGREE[0]
    longitude = _CENTRE[1] + 0.2 * (depot[:, 1] - 0.5) + east / _METRES_A_DEGREE[1]
    return latitude, longitude, -np.degrees(angle) % 360


def _fuel(driven: Floats, parked: np.ndarray) -> Floats:
    """Return the fuel level in litres: it falls with distance, rises where a vehicle parks, and ends as it began."""
    used = driven * _LITRES_A_METRE
    at_first = 16 + 34 * np.random.default_rng(_DEPOTS).random(len(driven))
    at_first[::5] = LITTLE_FUEL + 1  # these always fall below it
    level = at_first[:, None] - used
    for vehicle, burnt in enumerate(used):
        fills = max(1, round(burnt[-1] / _FILLED_AT_ONCE))
        places = np.flatnonzero(parked[vehicle])
        for fill in range(fills if places.size else 0):
            # Refuel at the stop where the fuel burnt since the last fill is nearest to 60 % of the next one.
            wanted = burnt[-1] * (fill + 0.6) / fills
            place = places[np.argmin(np.abs(burnt[places] - wanted))]
            level[vehicle, place:] += burnt[-1] / fills
    return np.maximum(0.5, level)


def _acceleration(rng: np.random.Generator, speed: Floats) -> Floats:
    """Return the acceleration in m/s² at each report: near that of the speed, and rarely a hard one while driving."""
    mean = np.diff(speed, axis=1, prepend=0.0) / 3.6 / TICK
    gentle = np.where(speed > 0, np.clip(mean + rng.normal(0, 0.3, speed.shape), -GENTLE, GENTLE), 0.0)
    hard = np.where(rng.random(speed.shape) < 0.5, rng.uniform(-8, -4, speed.shape), rng.uniform(4, 6, speed.shape))
    return np.where((rng.random(speed.shape) < 1 / 150) & (speed > 0), hard, gentle)


def _engine_temperature(rng: np.random.Generator, parked: np.ndarray) -> Floats:
    """Return the engine temperature in °C: engines warm up in minutes and cool in an hour; one in six overheats."""
    vehicles, ticks = parked.shape
    target = np.where(parked, _AMBIENT, _WARM)
    share = TICK / np.where(parked, 1800.0, 240.0)
    heat = np.full(vehicles, _WARM - 20)
    usual = np.empty((vehicles, ticks))
    for tick in range(ticks):
        heat += (target[:, tick] - heat) * share[:, tick]
        usual[:, tick] = heat
    centre = rng.uniform(0.3, 0.7, vehicles) * ticks
    far = np.abs(np.arange(ticks)[None, :] - centre[:, None])
    half = 300 / TICK
    ramp = np.clip(2 - far / half, 0, 1) * (np.arange(vehicles) % 6 == 1)[:, None]
    return usual + (_OVERHEATED - usual) * ramp + rng.normal(0, 0.3, usual.shape)


def make(rng: np.random.Generator, request: SimulationRequest) -> SimulatedEvents:
    """Make the clean events of a call, as lines."""
    table = telemetry_table(rng, request.size, request.grid(TICK * SECOND))
    muted = rng.choice(_vehicles(request.size), request.size // 8, replace=False).tolist()
    table = _until_silent(rng, table, muted)
    time = pl.col("time").cast(pl.Int64)
    stamp = pl.col("time").dt.strftime("%Y-%m-%dT%H:%M:%S%.3fZ")
    line = pl.struct("vehicle_id", stamp, *table.columns[2:]).struct.json_encode()
    events = table.select(time=time, over=time, key=pl.col("vehicle_id"), ndjson=line).sort("time", "key")
    return SimulatedEvents(events, (Format("ndjson", _FAULTS),))


def _until_silent(rng: np.random.Generator, table: pl.DataFrame, muted: list[str]) -> pl.DataFrame:
    """Drop the reports of the muted vehicles after a random point, while driving, in the second half of their way."""
    share = dict(zip(sorted(muted), rng.uniform(0.5, 0.9, len(muted)).tolist(), strict=True))
    drives = pl.col("speed") > 0
    so_far, in_all = (count.over("vehicle_id") for count in (drives.cum_sum(), drives.sum()))
    last = (pl.col("vehicle_id").replace_strict(share, default=1.0, return_dtype=pl.Float64) * in_all).floor() + 1
    return table.filter(so_far + ~drives <= last)


_FAULTS = json_faults("time") | {
    "empty vehicle": json_field("vehicle_id", '"  "'),
    "no position": json_field("longitude", "null"),
    "latitude out of range": json_field("latitude", "95.0"),
    "speed out of range": json_field("speed", "-12.5"),
    "fuel level is negative": json_field("fuel_level", "-3.0"),
    "acceleration out of range": json_field("acceleration", "-412.0"),
    "bearing out of range": json_field("bearing", "361.5"),
    "engine temperature out of range": json_field("engine_temperature", "999.0"),
}
