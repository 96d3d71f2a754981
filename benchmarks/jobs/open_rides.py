"""`POLARS_MAX_THREADS=1 python -m benchmarks.jobs.open_rides`: ride summaries with few and with very many open rides.

Measures a worker's part of a batch for a state partition: read the rows of rides that have points, call the step, write the
changes. Each open ride sends a point per minute. The timed batches have a million new points of the next minute, spread over
all rides, instead of one point per ride. There are many of them, so that parts are merged as in the long run. The work for a
sixteenth of the rides is timed, with one Polars thread, as in Spark's workers.
"""

import argparse
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl

from keyfold import KeyedJob, build_job
from keyfold.keyed.parts.manifest import Manifest
from keyfold.keyed.rows.codec import encode, polars_schema
from keyfold.keyed.running.blobs import CLOCK, BatchClock
from keyfold.keyed.running.operator import PartitionOperator
from keyfold.times import micros
from spark_jobs.jobs.ride_summaries.job import RIDE_POINT, RIDE_SUMMARIES

START = datetime(2026, 1, 1, tzinfo=UTC)
SHARE, NEW = 16, 1_000_000
MINUTE = timedelta(minutes=1)


class Partition:
    """A state partition that works on batches in this process, with the manifest that Spark would keep."""

    def __init__(self, job: KeyedJob, folder: Path) -> None:
        self.packed: tuple[bytes] | None = None
        self.clock = BatchClock(0, micros(START), micros(START), micros(START))
        self._job = job
        value: Any = self
        self._operator = PartitionOperator(job, folder / "answers", folder / "parts", value)

    def play(self, events: pl.DataFrame) -> float:
        """Work on a batch, and return its processor seconds."""
        newest = events[self._job.event_time].max()
        assert isinstance(newest, datetime)  # noqa: S101 - no batch is empty
        before = self.clock
        watermark = max(before.watermark, micros(newest - self._job.watermark_delay))
        self.clock = BatchClock(before.batch + 1, before.watermark, watermark, watermark)
        rows = [
            SimpleNamespace(sequence=CLOCK, payload=self.clock.pack()),
            SimpleNamespace(sequence=0, payload=encode(events)),
        ]
        began = time.process_time()
        for _ in self._operator.call(iter(rows)):
            pass
        return time.process_time() - began

    @property
    def manifest(self) -> Manifest:
        """Of its parts now."""
        return Manifest.unpack(self.packed[0]) if self.packed else Manifest(0)

    def get(self) -> tuple[bytes] | None:
        return self.packed

    def exists(self) -> bool:
        return self.packed is not None

    def update(self, value: tuple[bytes]) -> None:
        self.packed = value

    def clear(self) -> None:
        self.packed = None


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.jobs.open_rides", description=__doc__)
    parser.add_argument("--points", type=int, default=40, help="that each open ride has sent")
    parser.add_argument("--batches", type=int, default=20, help="that are timed, all that they join among it")
    parser.add_argument("--ends", action="store_true", help="rides end after that many points, and others begin")
    arguments = parser.parse_args()
    job = build_job(RIDE_SUMMARIES, {"watermark_delay": "10m", "close": "fast"})
    speeds, life = {}, arguments.points if arguments.ends else None
    for rides in (10_000, 100_000, 1_000_000):
        of_share, each = rides // SHARE, NEW // rides
        with tempfile.TemporaryDirectory() as folder:
            partition = Partition(job, Path(folder))
            for minute in range(arguments.points):
                partition.play(points(of_share, 1, minute, MINUTE, life))
            timed = []
            for minute in range(arguments.points, arguments.points + arguments.batches):
                before = partition.packed, partition.clock
                timed.append(partition.play(points(of_share, each, minute, MINUTE / each, life)))
                partition.packed, partition.clock = before
                partition.play(points(of_share, 1, minute, MINUTE, life))
            parts = partition.manifest.parts
        speeds[rides] = of_share * each * len(timed) / sum(timed)
        print(
            f"{rides:,} open rides: {speeds[rides]:,.0f} new points a processor second; state "
            f"{sum(part.rows for part in parts) / of_share:.1f} rows and {partition.manifest.size / of_share:,.0f} bytes "
            f"a ride in {len(parts)} parts; batches of {min(timed):.2f} to {max(timed):.2f} s"
        )
    print(f"1,000,000 open rides beside 10,000: {speeds[1_000_000] / speeds[10_000]:.2f}")


def points(rides: int, each: int, first: int, apart: timedelta, life: int | None = None) -> pl.DataFrame:
    """Points of rides on their way, `each` of every ride, in order of time; `first` is the number of minutes before.

    After `life` minutes a ride is dropped off, and another one begins in its place.
    """
    chance = np.random.default_rng(first)
    number = np.repeat(np.arange(each), rides)
    ride = np.tile(np.arange(rides), each)
    is_last = np.zeros(len(ride), bool)
    if life:
        is_last = ((first + ride) % life == life - 1) & (number == each - 1)
        ride = ride + rides * ((first + ride) // life)
    frame = pl.DataFrame(
        {
            "ride_id": pl.Series(ride).cast(pl.String).str.zfill(36),
            "point_idx": first + number,
            "latitude": 40.7 + chance.random(len(ride)) / 10,
            "longitude": -74 + chance.random(len(ride)) / 10,
            "timestamp": pl.Series(number).cast(pl.Int64) * (apart // timedelta(microseconds=1)),
            "meter_reading": 2.5 + (first + number) / 100,
            "ride_status": np.where(is_last, "dropoff", "enroute"),
        }
    )
    time = pl.col("timestamp").cast(pl.Duration("us")) + (START + timedelta(minutes=first))
    return frame.with_columns(timestamp=time).cast(pl.Schema(polars_schema(RIDE_POINT)))


if __name__ == "__main__":
    main()
