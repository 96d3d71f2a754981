"""`python -m benchmarks.small_runs [--runs N]`: the time of a run with little or no new data, also after many runs.

The N-th run is compared with the tenth run of a new job in the same minute, since the machine's load varies.
"""

import argparse
import statistics
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import SparkSession

from keyfold import Lakehouse, build_job, build_session
from keyfold.keyed.runner import run_job
from keyfold.lakehouse import create_table
from keyfold.lakehouse.commits import append_files
from keyfold.lakehouse.data_files import write_data_file
from keyfold.session import SparkSettings
from spark_jobs.jobs.registry import JOBS
from spark_jobs.simulation import ride_points_table
from spark_jobs.streams import RIDE_POINTS

EVENTS = 1_000
START = datetime(2026, 1, 1, tzinfo=UTC)
_SAMPLE = 10


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.small_runs", description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000, help="runs of the job that grows old")
    parser.add_argument("--job", default="ride_summaries", choices=list(JOBS), help="of ride points")
    arguments = parser.parse_args()
    spark = build_session(SparkSettings.from_environment())
    with tempfile.TemporaryDirectory(prefix="keyfold-bench-") as folder:
        old = Lakehouse(Path(folder) / "old")
        young = [_timed(spark, old, arguments.job, number) for number in range(2 * _SAMPLE)][_SAMPLE:]
        for number in range(2 * _SAMPLE, arguments.runs - _SAMPLE):
            _timed(spark, old, arguments.job, number)
        aged = [_timed(spark, old, arguments.job, arguments.runs - _SAMPLE + number) for number in range(_SAMPLE)]
        new = Lakehouse(Path(folder) / "new")
        fresh = [_timed(spark, new, arguments.job, number) for number in range(2 * _SAMPLE)][_SAMPLE:]
        empty = [_timed(spark, old, arguments.job, None) for _ in range(_SAMPLE)]
        files = sum(1 for _ in (old.job(arguments.job) / "generation-0001" / "journal").iterdir())
        state = sum(
            1 for path in (old.job(arguments.job) / "generation-0001" / "checkpoint").rglob("*") if path.is_file()
        )
    spark.stop()
    for name, seconds in (
        ("runs 10 to 20", young),
        (f"runs {arguments.runs - _SAMPLE} to {arguments.runs}", aged),
        ("runs 10 to 20 of a new job, then", fresh),
        ("runs without news", empty),
    ):
        print(f"{name}: median {statistics.median(seconds):.2f} s, {min(seconds):.2f} to {max(seconds):.2f}")
    print(f"old against new, in the same minute: {statistics.median(aged) / statistics.median(fresh):.2f}")
    print(f"files of the journal: {files}, of the checkpoint: {state}")


def _timed(spark: SparkSession, lakehouse: Lakehouse, job: str, number: int | None) -> float:
    """Seconds of a run after some new events have landed (None: after none)."""
    if number is not None:
        _land(lakehouse, number)
    began = time.monotonic()
    run_job(spark, lakehouse, build_job(JOBS[job]))
    return time.monotonic() - began


def _land(lakehouse: Lakehouse, number: int) -> None:
    table = lakehouse.events(RIDE_POINTS.name)
    create_table(table, RIDE_POINTS.schema)
    points = ride_points_table(EVENTS // 50, 50, seed=number, start=START + number * timedelta(minutes=20))
    points = points.select(RIDE_POINTS.schema.names)
    append_files(table, [write_data_file(points, table, RIDE_POINTS.schema)], "benchmark", number)


if __name__ == "__main__":
    main()
