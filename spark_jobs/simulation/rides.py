"""Simulate taxi rides in New York as random walks.

All rides of a call end within its hours. One ride in 30 takes longer than an hour, one in 16 has no dropoff, and the meter of
one in 40 jumps once.
"""

from datetime import datetime

import numpy as np
import polars as pl

from keyfold.times import micros, to_times
from spark_jobs.simulation.feed import SECOND, Floats, Ints
from spark_jobs.streams import RIDE_POINTS, RIDE_STATUSES

_NEW_YORK = ((40.60, 40.85), (-74.05, -73.75))
"""Bounds of latitude and longitude of all rides, in degrees."""

_METRES_A_DEGREE = (111_320.0, 84_400.0)
_FLAG_FALL = 2.5


def ride_points_table(
    rides: int, points_per_ride: int, seed: int, start: datetime, rides_per_hour: int = 1200
) -> pl.DataFrame:
    """Make clean ride points sorted by event time, with rides of equal length, for benchmarks.

    Rides begin evenly over `rides / rides_per_hour` hours of event time; a point comes every 9.5 s on average. The same
    arguments give the same table, with the columns and types of the stream `ride_points`.
    """
    rng = np.random.default_rng(seed)
    lengths = np.full(rides, points_per_ride, dtype=np.int64)
    elapsed = _seconds_into_ride(rng, lengths)
    pickups = np.sort(rng.integers(0, max(1, rides * 3600 * SECOND // rides_per_hour), rides))
    return _ride_points(rng, lengths, elapsed, pickups + micros(start))


def rides_table(rng: np.random.Generator, rides: int, begin: int, end: int) -> pl.DataFrame:
    """Make clean points of rides of any length, sorted by time, with the columns of the stream `ride_points`."""
    lengths = np.clip(rng.lognormal(np.log(60), 0.6, rides), 8, 220).astype(np.int64)
    long = max(1, rides // 30)
    lengths[rng.choice(rides, long, replace=False)] = rng.integers(450, 700, long)
    elapsed = _seconds_into_ride(rng, lengths)
    took = elapsed[np.cumsum(lengths) - 1]
    pickups = begin + (rng.random(rides) * ((end - begin) * 1.0 - took)).astype(np.int64)
    points = _ride_points(rng, lengths, elapsed, pickups)
    ids = points["ride_id"].unique(maintain_order=True)
    endless = ids.gather(rng.choice(rides, max(1, rides // 16), replace=False)).implode()
    jumping = ids.gather(rng.choice(rides, max(1, rides // 40), replace=False)).implode()
    # Before the last point, since a ride may have no dropoff.
    jumps = pl.col("ride_id").is_in(jumping) & (pl.col("point_idx") >= 6)
    return points.filter(~(pl.col("ride_id").is_in(endless) & (pl.col("ride_status") == "dropoff"))).with_columns(
        (pl.col("meter_reading") + pl.when(jumps).then(12.5).otherwise(0)).round(4)
    )


def _ride_points(rng: np.random.Generator, lengths: Ints, elapsed: Ints, pickups: Ints) -> pl.DataFrame:
    """Make the points of many rides, of at least two points each, sorted by event time."""
    firsts, total = np.cumsum(lengths) - lengths, int(lengths.sum())
    ride = np.repeat(np.arange(len(lengths)), lengths)
    index = np.arange(total) - firsts[ride]
    status = np.ones(total, dtype=np.int64)
    status[firsts], status[firsts + lengths - 1] = 0, 2
    latitude, longitude = _random_walk(rng, lengths, ride, elapsed)
    fare = np.round(rng.uniform(0.04, 0.16, len(lengths)), 4)
    digits = rng.bytes(16 * len(lengths)).hex()
    each = (digits[at : at + 32] for at in range(0, len(digits), 32))
    ids = [f"{d[:8]}-{d[8:12]}-{d[12:16]}-{d[16:20]}-{d[20:]}" for d in each]
    times = pickups[ride] + elapsed
    order = np.argsort(times, kind="stable")
    ride, index = ride[order], index[order]
    return pl.DataFrame(
        {
            "ride_id": pl.Series(ids, dtype=pl.String).gather(ride),
            "point_idx": index.astype(np.int32),
            "latitude": latitude[order],
            "longitude": longitude[order],
            "timestamp": to_times(times[order]),
            "meter_reading": np.round(_FLAG_FALL + fare[ride] * index, 4),
            "meter_increment": fare[ride],
            "ride_status": pl.Series(RIDE_STATUSES, dtype=pl.String).gather(status[order]),
            "passenger_count": rng.integers(1, 6, len(lengths), endpoint=True).astype(np.int32)[ride],
        }
    ).select(RIDE_POINTS.schema.names)


def _seconds_into_ride(rng: np.random.Generator, lengths: Ints) -> Ints:
    """Return the time from the pickup to each point, in microseconds; points are 4 to 15 s apart."""
    gaps = rng.integers(4_000, 15_000, lengths.sum(), endpoint=True) * 1000
    gaps[np.cumsum(lengths) - lengths] = 0
    return _running_sum(gaps, lengths)


def _random_walk(rng: np.random.Generator, lengths: Ints, ride: Ints, elapsed: Ints) -> tuple[Floats, Floats]:
    """Return latitude and longitude of each point; each ride has its own mean speed and a drifting heading."""
    total = len(ride)
    gaps = np.diff(elapsed, prepend=0).clip(0) / SECOND
    cruise = rng.lognormal(np.log(6.0), 0.35, len(lengths))
    speed = np.minimum(cruise[ride] * rng.gamma(4.0, 0.25, total), 25.0)
    heading = _running_sum(rng.normal(0.0, 0.25, total), lengths) + rng.uniform(0, 2 * np.pi, len(lengths))[ride]
    walk = []
    for direction, (low, high), metres in zip((np.cos, np.sin), _NEW_YORK, _METRES_A_DEGREE, strict=True):
        begin = rng.uniform(low, high, len(lengths))
        wandered = begin[ride] + _running_sum(speed * gaps * direction(heading), lengths) / metres
        # Reflected at the bounds, by a triangle wave with the period 2 * width; this makes no step longer.
        width = high - low
        walk.append(np.round(low + width - np.abs((wandered - low) % (2 * width) - width), 6))
    return walk[0], walk[1]


def _running_sum(values: np.ndarray, lengths: Ints) -> np.ndarray:
    """Return a running sum that restarts with each ride."""
    sums, firsts = np.cumsum(values), np.cumsum(lengths) - lengths
    return sums - np.repeat(sums[firsts] - values[firsts], lengths)
