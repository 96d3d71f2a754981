"""Simulate taxi rides in New York as random walks, in the format of the workshop's messages, one JSON object per line.

All rides of a call end within its hours. One ride in 30 takes longer than an hour, one in 16 has no dropoff, and the meter of
one in 40 jumps once.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from keyfold.times import micros
from spark_jobs.simulation.contract import SECOND, Floats, Format, Ints, SimulatedEvents, SimulationRequest
from spark_jobs.streams import RIDE_POINTS, RIDE_STATUSES

NEW_YORK = ((40.60, 40.85), (-74.05, -73.75))
"""Bounds of latitude and longitude of all rides, in degrees."""

TOP_SPEED = 25.0
"""The highest speed between two consecutive points of a ride, in m/s."""

SECONDS_BETWEEN_POINTS = (4.0, 15.0)

_METRES_A_DEGREE = (111_320.0, 84_400.0)
_FLAG_FALL = 2.5


def ride_points_table(
    rides: int, points_per_ride: int, seed: int, start: datetime, rides_per_hour: int = 1200
) -> pl.DataFrame:
    """Make clean ride points sorted by event time, with rides of equal length, for benchmarks.

    Rides begin evenly over `rides / rides_per_hour` hours of event time. A point comes every 9.5 s on average, so
    about `rides_per_hour * points_per_ride / 379` rides run at any moment: 160 with 50 points each.

    Args:
        rides: number of rides.
        points_per_ride: number of points of each, including pickup and dropoff; at least two.
        seed: the same arguments give the same table.
        start: the earliest pickup, with an offset.
        rides_per_hour: number of pickups per hour of event time.

    Returns:
        `rides * points_per_ride` rows with the columns and types of the stream `ride_points`.
    """
    rng = np.random.default_rng(seed)
    lengths = np.full(rides, points_per_ride, dtype=np.int64)
    elapsed = seconds_into_ride(rng, lengths)
    pickups = np.sort(rng.integers(0, max(1, rides * 3600 * SECOND // rides_per_hour), rides))
    return ride_points(rng, ride_ids(rng, rides), lengths, elapsed, pickups + micros(start))


def ride_ids(rng: np.random.Generator, rides: int) -> list[str]:
    """Make random ids in the format of UUIDs."""
    digits = rng.bytes(16 * rides).hex()
    each = (digits[at : at + 32] for at in range(0, len(digits), 32))
    return [f"{d[:8]}-{d[8:12]}-{d[12:16]}-{d[16:20]}-{d[20:]}" for d in each]


def seconds_into_ride(rng: np.random.Generator, lengths: Ints) -> Ints:
    """Return the time from the pickup to each point, in microseconds, rounded to milliseconds."""
    low, high = (int(1000 * seconds) for seconds in SECONDS_BETWEEN_POINTS)
    gaps = rng.integers(low, high, lengths.sum(), endpoint=True) * 1000
    gaps[_firsts(lengths)] = 0
    return _running_sum(gaps, lengths)


def ride_points(
    rng: np.random.Generator, ids: Sequence[str], lengths: Ints, elapsed: Ints, pickups: Ints
) -> pl.DataFrame:
    """Make the points of many rides, sorted by event time.

    Args:
        ids: the rides' ids.
        lengths: number of points of each ride, at least two.
        elapsed: the result of `seconds_into_ride` for these lengths.
        pickups: the time of each pickup, in microseconds since 1970.
    """
    firsts, total = _firsts(lengths), int(lengths.sum())
    ride = np.repeat(np.arange(len(lengths)), lengths)
    index = np.arange(total) - firsts[ride]
    status = np.ones(total, dtype=np.int64)
    status[firsts], status[firsts + lengths - 1] = 0, 2
    latitude, longitude = _random_walk(rng, lengths, ride, elapsed)
    fare = np.round(rng.uniform(0.04, 0.16, len(lengths)), 4)
    times = pickups[ride] + elapsed
    order = np.argsort(times, kind="stable")
    ride, index = ride[order], index[order]
    return pl.DataFrame(
        {
            "ride_id": pl.Series(ids, dtype=pl.String).gather(ride),
            "point_idx": index.astype(np.int32),
            "latitude": latitude[order],
            "longitude": longitude[order],
            "timestamp": pl.Series(times[order]).cast(pl.Datetime("us", "UTC")),
            "meter_reading": np.round(_FLAG_FALL + fare[ride] * index, 4),
            "meter_increment": fare[ride],
            "ride_status": pl.Series(RIDE_STATUSES, dtype=pl.String).gather(status[order]),
            "passenger_count": rng.integers(1, 6, len(lengths), endpoint=True).astype(np.int32)[ride],
        }
    ).select(RIDE_POINTS.schema.names)


def _random_walk(rng: np.random.Generator, lengths: Ints, ride: Ints, elapsed: Ints) -> tuple[Floats, Floats]:
    """Return latitude and longitude of each point; each ride has its own mean speed and a drifting heading."""
    total = len(ride)
    gaps = np.diff(elapsed, prepend=0) / SECOND
    gaps[_firsts(lengths)] = 0
    cruise = rng.lognormal(np.log(6.0), 0.35, len(lengths))
    speed = np.minimum(cruise[ride] * rng.gamma(4.0, 0.25, total), TOP_SPEED)
    heading = _running_sum(rng.normal(0.0, 0.25, total), lengths) + rng.uniform(0, 2 * np.pi, len(lengths))[ride]
    walk = []
    for direction, (low, high), metres in zip((np.cos, np.sin), NEW_YORK, _METRES_A_DEGREE, strict=True):
        begin = rng.uniform(low, high, len(lengths))
        wandered = begin[ride] + _running_sum(speed * gaps * direction(heading), lengths) / metres
        walk.append(np.round(_folded(wandered, low, high), 6))
    return walk[0], walk[1]


def _folded(values: Floats, low: float, high: float) -> Floats:
    """Reflect values at the bounds, repeatedly if needed; this makes no step longer."""
    width = high - low
    # A triangle wave with the period 2 * width.
    return low + width - np.abs((values - low) % (2 * width) - width)


def _firsts(lengths: Ints) -> Ints:
    return np.cumsum(lengths) - lengths


def _running_sum(values: npt.NDArray[Any], lengths: Ints) -> npt.NDArray[Any]:
    """Return a running sum that restarts with each ride."""
    sums = np.cumsum(values)
    firsts = _firsts(lengths)
    return sums - np.repeat(sums[firsts] - values[firsts], lengths)


def make(rng: np.random.Generator, request: SimulationRequest) -> SimulatedEvents:
    """Make the clean events of a call, as lines."""
    lengths = np.clip(rng.lognormal(np.log(60), 0.6, request.size), 8, 220).astype(np.int64)
    long = max(1, request.size // 30)
    lengths[rng.choice(request.size, long, replace=False)] = rng.integers(450, 700, long)
    elapsed = seconds_into_ride(rng, lengths)
    took = elapsed[np.cumsum(lengths) - 1]
    pickups = request.begin + (rng.random(request.size) * ((request.end - request.begin) * 1.0 - took)).astype(np.int64)
    ids = ride_ids(rng, request.size)
    points = ride_points(rng, ids, lengths, elapsed, pickups)
    endless = [ids[at] for at in rng.choice(request.size, max(1, request.size // 16), replace=False)]
    points = points.filter(~(pl.col("ride_id").is_in(endless) & (pl.col("ride_status") == "dropoff")))
    points, jumps = _with_jumps(rng, points, ids, lengths)
    time = pl.col("timestamp").cast(pl.Int64)
    line = pl.struct(
        "ride_id",
        "point_idx",
        "latitude",
        "longitude",
        pl.col("timestamp").dt.convert_time_zone("America/New_York").dt.strftime("%Y-%m-%dT%H:%M:%S%.6f%:z"),
        "meter_reading",
        "meter_increment",
        "ride_status",
        "passenger_count",
    )
    events = points.select(
        time=time, over=time.max().over("ride_id"), key=pl.col("ride_id"), ndjson=line.struct.json_encode()
    )
    return SimulatedEvents(events, (Format("ndjson", _FAULTS),), jumps)


def _with_jumps(
    rng: np.random.Generator, points: pl.DataFrame, ids: Sequence[str], lengths: Ints
) -> tuple[pl.DataFrame, tuple[tuple[str, int], ...]]:
    """Add a jump of the meter to some rides; return the points, and the ride and first affected point of each jump."""
    rides = rng.choice(len(ids), max(1, len(ids) // 40), replace=False)
    names = [ids[int(ride)] for ride in rides]
    # Before the last point, since a ride may have no dropoff.
    since = dict(zip(names, rng.integers(1, lengths[rides] - 1).tolist(), strict=True))
    by = dict(zip(names, np.round(rng.uniform(5, 20, len(rides)), 2).tolist(), strict=True))
    first, size = (
        pl.col("ride_id").replace_strict(of_ride, default=None, return_dtype=kind)
        for of_ride, kind in ((since, pl.Int64), (by, pl.Float64))
    )
    added = pl.when(pl.col("point_idx") >= first).then(size).fill_null(0)
    return points.with_columns((pl.col("meter_reading") + added).round(4)), tuple(sorted(since.items()))


# Malformed lines have a point_idx of their own, so that none is a duplicate of a good point. Every good line contains the text
# that a fault replaces.
_LINE = pl.col("line").str.replace(r'"point_idx":(\d+)', r'"point_idx":9${1}00000')
_FAULTS = {
    "broken JSON": _LINE.str.head(70),
    "no ride_id": _LINE.str.replace(r'"ride_id":"[^"]*",', ""),
    "unreadable time": _LINE.str.replace(r'"timestamp":"[^"]*"', '"timestamp":"half past nine"'),
    "latitude out of range": _LINE.str.replace(r'"latitude":[^,]*', '"latitude":999.0'),
    "unknown status": _LINE.str.replace(r'"ride_status":"[^"]*"', '"ride_status":"teleporting"'),
    "time in the future": _LINE.str.replace(r'"timestamp":"[^"]*"', '"timestamp":"2199-12-31T23:59:59.000000-05:00"'),
}
