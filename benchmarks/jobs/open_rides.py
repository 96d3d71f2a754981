"""`POLARS_MAX_THREADS=1 python -m benchmarks.jobs.open_rides`: ride summaries of few and of very many open rides.

What a worker does for a key group in a batch: read its state and its new points, call the step, write the state. Each open
ride has sent a point a minute for a while; a million new points are spread over all of them. The work of one of 64 key
groups is timed, which is the same in each; with one thread of Polars, as Spark's workers have.
"""

import argparse
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl

from benchmarks.jobs.measure import seconds_of
from keyfold.keyed.codec import decode, encode, polars_schema
from keyfold.keyed.harness import TestHarness
from keyfold.keyed.parameters import build_job
from spark_jobs.jobs.ride_summaries.job import RIDE_POINT, RIDE_SUMMARIES

START = datetime(2026, 1, 1, tzinfo=UTC)
KEY_GROUPS, NEW, REPEAT = 64, 1_000_000, 5


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.jobs.open_rides", description=__doc__)
    parser.add_argument("--points", type=int, default=40, help="that each open ride has sent")
    parser.add_argument("--delay", default="10m", help="of the watermark")
    parser.add_argument("--close", choices=["fast", "complete"], default="fast")
    arguments = parser.parse_args()
    job = build_job(RIDE_SUMMARIES, {"watermark_delay": arguments.delay, "close": arguments.close})
    speeds = {}
    for rides in (10_000, 100_000, 1_000_000):
        of_group = rides // KEY_GROUPS
        harness = TestHarness(job)
        harness.batch(points(of_group, arguments.points, 0, timedelta(minutes=1)))
        harness.batch(points(of_group, 1, arguments.points, timedelta(minutes=1)))
        blob, watermark = encode(harness.state), harness.watermark
        each = NEW // rides
        new = encode(points(of_group, each, arguments.points + 1, timedelta(minutes=1) / each))

        def work(blob: bytes = blob, new: bytes = new, watermark: datetime = watermark) -> None:
            one = TestHarness(job)
            one.state, one.watermark = decode(blob), watermark
            one.batch(decode(new))
            encode(one.state)

        best = min(seconds_of(work) for _ in range(REPEAT))
        speeds[rides] = of_group * each / best
        print(
            f"{rides:,} open rides: {speeds[rides]:,.0f} new points/s; "
            f"state {harness.state.height / of_group:.1f} rows and {len(blob) / of_group:,.0f} bytes a ride"
        )
    print(f"1,000,000 open rides beside 10,000: {speeds[1_000_000] / speeds[10_000]:.2f}")


def points(rides: int, each: int, first: int, apart: timedelta) -> pl.DataFrame:
    """Points of rides on their way, `each` of every ride, in order of time; `first` is the number of minutes before."""
    chance = np.random.default_rng(first)
    number = np.repeat(np.arange(each), rides)
    ride = np.tile(np.arange(rides), each)
    frame = pl.DataFrame(
        {
            "ride_id": pl.Series(ride).cast(pl.String).str.zfill(36),
            "point_idx": first + number,
            "latitude": 40.7 + chance.random(len(ride)) / 10,
            "longitude": -74 + chance.random(len(ride)) / 10,
            "timestamp": pl.Series(number).cast(pl.Int64) * (apart // timedelta(microseconds=1)),
            "meter_reading": 2.5 + (first + number) / 100,
            "ride_status": pl.repeat("enroute", len(ride), eager=True),
        }
    )
    time = pl.col("timestamp").cast(pl.Duration("us")) + (START + timedelta(minutes=first))
    return frame.with_columns(timestamp=time).cast(pl.Schema(polars_schema(RIDE_POINT)))


if __name__ == "__main__":
    main()
