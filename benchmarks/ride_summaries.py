"""Compare throughput, cold start and memory of ride summaries with Spark's own aggregation: `make bench`."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.contestants import CONTESTANTS
from benchmarks.memory import PeakMemory
from keyfold import Lakehouse, build_session
from keyfold.session import SparkSettings
from spark_jobs.simulation import ride_points_table

POINTS_A_RIDE = 50
FILES = 16


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
    spark = build_session(SparkSettings.from_environment())
    session = time.monotonic() - began
    rows, cold = _timed(name, spark, folder, "small")
    warm: dict[str, list[float]] = {"small": [], "large": []}
    for _ in range(repeat):
        for size, seconds in warm.items():
            rows, took = _timed(name, spark, folder, size)
            seconds.append(took)
    spark.stop()
    return {"session": session, "cold": cold, "rows": rows, "warm": warm, "peak_bytes": memory.stop()}


def report(results: dict[str, dict[str, Any]], small: int, large: int) -> None:
    """Print the figures and the ratios to Keyfold."""
    rates = {
        name: (large - small) / (min(result["warm"]["large"]) - min(result["warm"]["small"]))
        for name, result in results.items()
    }
    best = {name: {size: min(runs) for size, runs in result["warm"].items()} for name, result in results.items()}
    table = Table(title=f"ride summaries, {small:,} and {large:,} points, {os.cpu_count()} cores")
    for column in (
        "contestant",
        "points/s by slope",
        "Keyfold is: slope, small, large",
        "small s",
        "large s",
        "cold s",
        "session s",
        "peak GiB",
        "rows",
    ):
        table.add_column(column, justify="left" if column == "contestant" else "right")
    for name, result in results.items():
        ratios = [rates["keyfold"] / rates[name]]
        ratios += [best[name][size] / best["keyfold"][size] for size in ("small", "large")]
        ratio = " ".join(f"{one:.2f}" for one in ratios)
        table.add_row(
            name,
            f"{rates[name]:,.0f}",
            ratio,
            " ".join(f"{seconds:.1f}" for seconds in result["warm"]["small"]),
            " ".join(f"{seconds:.1f}" for seconds in result["warm"]["large"]),
            f"{result['cold']:.1f}",
            f"{result['session']:.1f}",
            f"{result['peak_bytes'] / 2**30:.1f}",
            f"{result['rows']:,}",
        )
    Console(width=130).print(table)


def _write_points(home: Path, points: int, *, scattered: bool = False) -> None:
    """Write points as ingest does, in order of time within each file; scattered, every file spans all of the time."""
    rides = points // POINTS_A_RIDE
    table = ride_points_table(rides, POINTS_A_RIDE, seed=1, start=datetime(2026, 1, 1, tzinfo=UTC))
    folder = Lakehouse(home).events("ride_points")
    folder.parent.mkdir(parents=True)
    rows = -(-table.height // FILES)
    for number in range(FILES):
        part = table.gather_every(FILES, number) if scattered else table.slice(number * rows, rows)
        part.write_delta(str(folder), mode="append")


def _timed(name: str, spark: Any, folder: Path, size: str) -> tuple[int, float]:
    """Run a contestant in a new lakehouse that shares the points."""
    home = Path(tempfile.mkdtemp(dir=folder, prefix=f"{name}-"))
    (home / "events").symlink_to(folder / size / "events")
    began = time.monotonic()
    rows = CONTESTANTS[name](spark, home)
    took = time.monotonic() - began
    shutil.rmtree(home)
    return rows, took


def _in_a_process(name: str, folder: Path, repeat: int) -> dict[str, Any]:
    command = [
        sys.executable,
        "-m",
        "benchmarks",
        "--contestant",
        name,
        "--folder",
        str(folder),
        "--repeat",
        str(repeat),
    ]
    Console(stderr=True).print(f"{name} …")
    finished = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(finished.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
