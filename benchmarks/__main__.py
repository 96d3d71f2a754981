"""`python -m benchmarks`: compare throughput, cold start and memory of ride summaries with Spark's own aggregation.

Both read the same Parquet files of points, with the same micro-batches:

- `keyfold`: the job as shipped, with distance and fare.
- `native`: Spark's windowed aggregation per ride: count, first and last time, first and last status, fare. Distance cannot be
  expressed, and a tumbling window of an hour replaces the end of a ride.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

from benchmarks.runs import FILES, Figures, by_turns, listed, print_table, ride_points
from benchmarks.usage import PeakMemory
from keyfold import Lakehouse, build_job, build_session
from keyfold.keyed.runner import RunOptions, run_job
from keyfold.runners import Runners
from keyfold.session import SparkSettings
from spark_jobs.jobs.registry import JOBS

_BATCH_BYTES = f"{RunOptions().max_bytes_per_batch}b"


def keyfold(spark: Runners, home: Path) -> int:
    """Run the shipped job, and return the number of rows written, as both contestants do."""
    job = build_job(JOBS["ride_summaries"])
    return run_job(Lakehouse(home), job, runners=spark).counts.rows["ride_summaries"]


def native(spark: Runners, home: Path) -> int:
    reader = spark.session.readStream.format("parquet").option("maxBytesPerTrigger", _BATCH_BYTES)
    summaries = (
        reader.load(str(Lakehouse(home).events("ride_points")))
        .withWatermark("timestamp", "10 minutes")
        .groupBy(F.window("timestamp", "1 hour"), "ride_id")
        .agg(
            F.min("timestamp").alias("start_time"),
            F.max("timestamp").alias("end_time"),
            F.count("*").alias("n_points"),
            F.max("meter_reading").alias("fare"),
            F.min_by("ride_status", "timestamp").alias("start_status"),
            F.max_by("ride_status", "timestamp").alias("end_status"),
        )
        .drop("window")
    )
    writer = summaries.writeStream.format("parquet").outputMode("append").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(home / "checkpoint")).start(str(home / "out"))
    query.awaitTermination()
    return spark.session.read.format("parquet").load(str(home / "out")).count()


CONTESTANTS: dict[str, Callable[[Runners, Path], int]] = {"keyfold": keyfold, "native": native}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--small", type=int, default=2_000_000, help="points of the small set")
    parser.add_argument("--large", type=int, default=8_000_000, help="points of the large set")
    parser.add_argument("--repeat", type=int, default=3, help="warm runs of each size; the fastest counts")
    parser.add_argument("--scattered", action="store_true", help="every file spans all of the time: the worst case")
    parser.add_argument("--contestant", choices=list(CONTESTANTS), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.contestant:
        print(json.dumps(compete(arguments.contestant, arguments.folder, arguments.repeat)))
        return
    with tempfile.TemporaryDirectory(prefix="keyfold-bench-") as folder:
        for size in ("small", "large"):
            _write_points(Path(folder) / size, getattr(arguments, size), scattered=arguments.scattered)
        results = {name: _in_a_process(name, Path(folder), arguments.repeat) for name in CONTESTANTS}
    report(results, arguments.small, arguments.large)


def compete(name: str, folder: Path, repeat: int) -> dict[str, Any]:
    """Run one contestant in this process: once cold, then warm, small and large in turn."""
    memory = PeakMemory(os.getpid())
    memory.start()
    began = time.monotonic()
    session = build_session(SparkSettings.from_environment())
    spark = Runners("spark", session)
    started, rows = time.monotonic() - began, 0

    def run(size: str, home: Path) -> None:
        nonlocal rows
        # A new lakehouse shares the points.
        (home / "events").symlink_to(folder / size / "events")
        rows = CONTESTANTS[name](spark, home)

    found = by_turns({size: partial(run, size) for size in ("small", "large")}, folder, repeat)
    session.stop()
    figures = {size: vars(one) for size, one in found.items()}
    return {"session": started, "rows": rows, "peak_bytes": memory.stop()["all"], **figures}


def report(results: dict[str, dict[str, Any]], small: int, large: int) -> None:
    """Print the figures and the ratios to Keyfold."""
    figures = {name: {size: Figures(**result[size]) for size in ("small", "large")} for name, result in results.items()}
    rates = {name: (large - small) / (one["large"].best - one["small"].best) for name, one in figures.items()}
    print_table(
        f"ride summaries, {small:,} and {large:,} points, {os.cpu_count()} cores",
        (
            "contestant",
            "points/s by slope",
            "Keyfold is: slope, small, large",
            "small s",
            "large s",
            "cold s",
            "session s",
            "peak GiB",
            "rows",
        ),
        (
            (
                name,
                f"{rates[name]:,.0f}",
                listed(
                    [rates["keyfold"] / rates[name], *(one[size].best / figures["keyfold"][size].best for size in one)]
                ),
                *(listed(one[size].seconds, 1) for size in one),
                f"{one['small'].cold:.1f}",
                f"{results[name]['session']:.1f}",
                f"{results[name]['peak_bytes'] / 2**30:.1f}",
                f"{results[name]['rows']:,}",
            )
            for name, one in figures.items()
        ),
    )


def _write_points(home: Path, points: int, *, scattered: bool = False) -> None:
    """Write points as ingest does, in order of time within each file; scattered, every file spans all of the time."""
    table = ride_points(points)
    folder = Lakehouse(home).events("ride_points")
    folder.parent.mkdir(parents=True)
    rows = -(-table.height // FILES)
    for number in range(FILES):
        part = table.gather_every(FILES, number) if scattered else table.slice(number * rows, rows)
        part.write_delta(str(folder), mode="append")


def _in_a_process(name: str, folder: Path, repeat: int) -> dict[str, Any]:
    own = [sys.executable, "-m", "benchmarks", "--contestant", name]
    command = [*own, "--folder", str(folder), "--repeat", str(repeat)]
    print(f"{name} …", file=sys.stderr)
    finished = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(finished.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
