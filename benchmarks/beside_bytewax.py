"""`python -m benchmarks.beside_bytewax --python PYTHON`: compare Keyfold with Bytewax, from landing files to summaries.

PYTHON is an interpreter with `bytewax==0.21.1` (and `orjson`; otherwise it parses with the standard library). Bytewax runs in
two processes, parses and folds the same points, and writes lines. Keyfold validates, removes duplicates, keeps a table of
events and one of summaries, and is exactly once. Both do whole warm runs in turn. The start of Bytewax's processes is
subtracted.
"""

import argparse
import os
import shutil
import socket
import subprocess
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
from pyspark.sql import SparkSession

from keyfold import Lakehouse, build_job, build_session, ingest
from keyfold.keyed.runner import run_job
from keyfold.session import SparkSettings
from spark_jobs.jobs.registry import JOBS
from spark_jobs.simulation import ride_points_table
from spark_jobs.streams import RIDE_POINTS

FILES = 16


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.beside_bytewax", description=__doc__)
    parser.add_argument("--python", required=True, help="an interpreter that has Bytewax")
    parser.add_argument("--points", type=int, default=2_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    spark = build_session(SparkSettings.from_environment())
    with tempfile.TemporaryDirectory(prefix="keyfold-bench-") as folder:
        landing = _landing(Path(folder) / "landing", arguments.points)
        few = _landing(Path(folder) / "few", 1_000)
        start = min(_bytewax(arguments.python, few, Path(folder)) for _ in range(2))
        _keyfold(spark, landing, Path(folder))
        times: dict[str, list[float]] = {"keyfold": [], "bytewax": []}
        for _ in range(arguments.repeat):
            times["keyfold"].append(_keyfold(spark, landing, Path(folder)))
            times["bytewax"].append(_bytewax(arguments.python, landing, Path(folder)) - start)
    spark.stop()
    for name, seconds in times.items():
        rate = arguments.points / min(seconds)
        print(f"{name}: {' '.join(f'{one:.1f}' for one in seconds)} s, {rate:,.0f} points/s")
    print(f"Bytewax's start, left out: {start:.1f} s")
    print(f"Keyfold is {min(times['bytewax']) / min(times['keyfold']):.2f} times as fast")


def _landing(folder: Path, points: int) -> Path:
    folder.mkdir()
    table = ride_points_table(points // 50, 50, seed=1, start=datetime(2026, 1, 1, tzinfo=UTC))
    table = table.with_columns(pl.col("timestamp").dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ"))
    rows = -(-table.height // FILES)
    for number in range(FILES):
        table.slice(number * rows, rows).write_ndjson(folder / f"{number:03d}.ndjson")
    return folder


def _keyfold(spark: SparkSession, landing: Path, folder: Path) -> float:
    home = Path(tempfile.mkdtemp(dir=folder))
    began = time.monotonic()
    ingest(spark, Lakehouse(home), RIDE_POINTS, landing)
    summary = run_job(spark, Lakehouse(home), build_job(JOBS["ride_summaries"]))
    took = time.monotonic() - began
    print(f"keyfold: {summary.counts.rows['ride_summaries']:,} summaries in {took:.1f} s", flush=True)
    shutil.rmtree(home)
    return took


def _bytewax(python: str, landing: Path, folder: Path) -> float:
    out = Path(tempfile.mkdtemp(dir=folder)) / "summaries"
    addresses = ";".join(f"127.0.0.1:{port}" for port in _free_ports(2))
    environment = {**os.environ, "KEYFOLD_BENCH_LANDING": str(landing), "KEYFOLD_BENCH_OUT": str(out)}
    began = time.monotonic()
    processes = [
        subprocess.Popen(
            [python, "-m", "bytewax.run", "benchmarks.bytewax_flow:flow", "-i", str(number), "-a", addresses],
            env=environment,
        )
        for number in range(2)
    ]
    codes = [process.wait() for process in processes]
    took = time.monotonic() - began
    if any(codes):
        raise RuntimeError(f"bytewax ended with {codes}")
    rows = sum(sum(1 for _ in path.open("rb")) for path in out.parent.iterdir())
    print(f"bytewax: {rows:,} summaries in {took:.1f} s", flush=True)
    shutil.rmtree(out.parent)
    return took


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


if __name__ == "__main__":
    main()
