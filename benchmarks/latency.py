"""`python -m benchmarks.latency`: the time from a landed file to the committed rows of a job, in continuous mode.

Real processes are measured: `keyfold ingest ride_points --continuous` and `keyfold run event_index --continuous`. Every file has one
ride, so that a row tells its file. The measurement does not disturb them: at the end, the modification time of the log entry that
names a row's data file says when the row was committed. The benchmark fails unless every event has exactly one row.
"""

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.runs import START
from keyfold import Lakehouse
from spark_jobs.simulation import ride_points_table

_KEYFOLD = Path(sys.executable).with_name("keyfold")
SECONDS, EVERY, EVENTS = 60, 0.25, 250
"""How long files land, the seconds between two, and the events of each."""
_COLD = 20
"""Files at the beginning that do not count."""


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="keyfold-latency-") as folder:
        measure(Path(folder))


def measure(folder: Path) -> None:
    """Land files at a steady pace while both processes run, and print how long their rows took."""
    lakehouse, staged = Lakehouse(folder / "home"), folder / "staged"
    landing = Path(str(lakehouse.landing("ride_points")))
    landing.mkdir(parents=True)
    staged.mkdir()
    landed: dict[str, float] = {}

    def land() -> None:
        start = START + len(landed) * timedelta(hours=1)
        ride = f"ride-{len(landed):06}"
        points = ride_points_table(1, EVENTS, seed=len(landed), start=start).with_columns(ride_id=pl.lit(ride))
        file = staged / f"{ride}.ndjson"
        points.with_columns(pl.col("timestamp").dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ")).write_ndjson(file)
        landed[ride] = time.time()
        file.rename(landing / file.name)

    land()
    commands = [
        ("ingest", "ride_points", "--settle", "0"),
        ("run", "event_index", "--param", "delay=0s"),
    ]
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for verb, *rest in commands:
            command = [str(_KEYFOLD), verb, *rest, "--continuous", "--home", str(lakehouse.home)]
            processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            _wait(processes, lambda: "events.ride_points" in lakehouse.tables())
        _wait(processes, lambda: "event_index" in lakehouse.tables())
        table = Path(str(lakehouse.table("event_index")))
        _wait(processes, lambda: _rows(table) == EVENTS)
        began = time.monotonic()
        while time.monotonic() - began < SECONDS:
            time.sleep(max(0.0, began + len(landed) * EVERY - time.monotonic()))
            land()
        _wait(processes, lambda: _rows(table) >= EVENTS * len(landed))
    finally:
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            process.wait(60)
    if _rows(table) != EVENTS * len(landed):
        raise SystemExit(f"{_rows(table):,} rows for {EVENTS * len(landed):,} events")
    committed = {ride: at for at, rides in _commits(table) for ride in rides}
    delays = np.array([committed[ride] - at for ride, at in landed.items()][_COLD:])
    half, most = np.quantile(delays, [0.5, 0.99])
    print(f"{len(landed):,} files of {EVENTS:,} events, one each {EVERY} s: p50 {half:.2f} s, p99 {most:.2f} s")


def _wait(processes: list[subprocess.Popen[bytes]], is_so: Callable[[], bool], patience: float = 60) -> None:
    end = time.monotonic() + patience
    while not is_so():
        if time.monotonic() > end or any(process.poll() is not None for process in processes):
            raise SystemExit("a process has ended, or rows do not come")
        time.sleep(0.05)


def _rows(table: Path) -> int:
    return pl.scan_delta(str(table)).select(pl.len()).collect().item() if (table / "_delta_log").is_dir() else 0


def _commits(table: Path) -> Iterator[tuple[float, list[str]]]:
    """Yield when rows were added to a Delta table, in seconds since 1970, and their rides."""
    for entry in sorted((table / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in entry.read_text().splitlines()]
        added = [table / action["add"]["path"] for action in actions if action.get("add", {}).get("dataChange")]
        for file in added:
            yield entry.stat().st_mtime, pl.read_parquet(file, columns=["ride_id"])["ride_id"].unique().to_list()


if __name__ == "__main__":
    main()
