"""`python -m benchmarks.small_runs [--runs N] [--runner local]`: a run with little or no new data, also after many runs.

The N-th run is compared with the tenth run of a new job in the same minute, since the machine's load varies.
"""

import argparse
import statistics
import time
from datetime import timedelta

from benchmarks.runs import POINTS_A_RIDE, START, runners_and_folder
from keyfold import Lakehouse, build_job
from keyfold.keyed.job_run import run_job
from keyfold.lakehouse import create_table
from keyfold.lakehouse.commits import append_files
from keyfold.lakehouse.data_files import write_data_file
from keyfold.runners import Runners
from spark_jobs.jobs.registry import JOBS
from spark_jobs.simulation import ride_points_table
from spark_jobs.streams import RIDE_POINTS

JOB, EVENTS = "ride_summaries", 1_000
_SAMPLE = 10


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.small_runs", description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000, help="runs of the job that grows old")
    parser.add_argument("--runner", default="spark", choices=["spark", "local"])
    arguments = parser.parse_args()
    with runners_and_folder(arguments.runner) as (runners, folder):
        old = Lakehouse(folder / "old")
        young = [_timed(runners, old, number) for number in range(2 * _SAMPLE)][_SAMPLE:]
        for number in range(2 * _SAMPLE, arguments.runs - _SAMPLE):
            _timed(runners, old, number)
        aged = [_timed(runners, old, arguments.runs - _SAMPLE + number) for number in range(_SAMPLE)]
        new = Lakehouse(folder / "new")
        fresh = [_timed(runners, new, number) for number in range(2 * _SAMPLE)][_SAMPLE:]
        empty = [_timed(runners, old, None) for _ in range(_SAMPLE)]
    for name, seconds in (
        ("runs 10 to 20", young),
        (f"runs {arguments.runs - _SAMPLE} to {arguments.runs}", aged),
        ("runs 10 to 20 of a new job, then", fresh),
        ("runs without news", empty),
    ):
        print(f"{name}: median {statistics.median(seconds):.2f} s, {min(seconds):.2f} to {max(seconds):.2f}")
    print(f"old against new, in the same minute: {statistics.median(aged) / statistics.median(fresh):.2f}")


def _timed(runners: Runners, lakehouse: Lakehouse, number: int | None) -> float:
    """Seconds of a run after some new events have landed (None: after none)."""
    if number is not None:
        _land(lakehouse, number)
    began = time.monotonic()
    run_job(lakehouse, build_job(JOBS[JOB]), runners=runners)
    return time.monotonic() - began


def _land(lakehouse: Lakehouse, number: int) -> None:
    table = lakehouse.events(RIDE_POINTS.name)
    create_table(table, RIDE_POINTS.schema)
    start = START + number * timedelta(minutes=20)
    points = ride_points_table(EVENTS // POINTS_A_RIDE, POINTS_A_RIDE, seed=number, start=start)
    append_files(table, [write_data_file(points, table, RIDE_POINTS.schema)], "benchmark", number)


if __name__ == "__main__":
    main()
