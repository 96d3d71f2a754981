"""`python -m benchmarks.beside_bytewax --python PYTHON`: compare Keyfold with Bytewax, from landing files to summaries.

PYTHON is an interpreter with `bytewax==0.21.1` (and `orjson`; otherwise it parses with the standard library). Bytewax runs in
two processes, parses and folds the same points, and writes lines. Keyfold validates, removes duplicates, keeps a table of
events and one of summaries, and is exactly once. Both do whole warm runs in turn. The start of Bytewax's processes is
subtracted.
"""

import argparse
import os
import socket
import subprocess
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.runs import by_turns, listed, ride_files, spark_and_folder
from keyfold import Lakehouse, build_job, ingest
from keyfold.keyed.runner import run_job
from spark_jobs.jobs.registry import JOBS
from spark_jobs.streams import RIDE_POINTS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.beside_bytewax", description=__doc__)
    parser.add_argument("--python", required=True, help="an interpreter that has Bytewax")
    parser.add_argument("--points", type=int, default=2_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    with spark_and_folder() as (spark, folder):
        few, landing = ride_files(folder / "few", 1_000), ride_files(folder / "landing", arguments.points)
        bytewax = partial(_bytewax, arguments.python)
        start = by_turns({"start": partial(bytewax, few)}, folder, 1)["start"].best
        contestants = {"keyfold": partial(_keyfold, spark, landing), "bytewax": partial(bytewax, landing)}
        found = by_turns(contestants, folder, arguments.repeat)
    seconds = {"keyfold": found["keyfold"].seconds, "bytewax": [one - start for one in found["bytewax"].seconds]}
    for name, runs in seconds.items():
        print(f"{name}: {listed(runs, 1)} s, {arguments.points / min(runs):,.0f} points/s")
    print(f"Bytewax's start, left out: {start:.1f} s")
    print(f"Keyfold is {min(seconds['bytewax']) / min(seconds['keyfold']):.2f} times as fast")


def _keyfold(spark: SparkSession, landing: Path, home: Path) -> None:
    ingest(spark, Lakehouse(home), RIDE_POINTS, landing)
    summary = run_job(spark, Lakehouse(home), build_job(JOBS["ride_summaries"]))
    print(f"keyfold: {summary.counts.rows['ride_summaries']:,} summaries", flush=True)


def _bytewax(python: str, landing: Path, home: Path) -> None:
    addresses = ";".join(f"127.0.0.1:{port}" for port in _free_ports(2))
    environment = {**os.environ, "KEYFOLD_BENCH_LANDING": str(landing), "KEYFOLD_BENCH_OUT": str(home / "summaries")}
    processes = [
        subprocess.Popen(
            [python, "-m", "bytewax.run", "benchmarks.bytewax_flow:flow", "-i", str(number), "-a", addresses],
            env=environment,
        )
        for number in range(2)
    ]
    codes = [process.wait() for process in processes]
    if any(codes):
        raise RuntimeError(f"bytewax ended with {codes}")
    rows = sum(sum(1 for _ in path.open("rb")) for path in home.iterdir())
    print(f"bytewax: {rows:,} summaries", flush=True)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


if __name__ == "__main__":
    main()
