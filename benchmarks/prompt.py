"""`python -m benchmarks.prompt [--seconds N] [--key-groups N]`: latency from a landed event to its committed prediction.

Two processes as they are shipped, `keyfold ingest metrics --continuous` and `keyfold run anomaly_predictions
--continuous`; this one lands a small file every so often. Nothing is asked of them: when all is over, the log of the
Delta table says when each row was committed, as in `benchmarks.kafka_prompt`, and the rows when their file landed.
"""

import argparse
import json
import os
import tempfile
import threading
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.kafka_prompt import Processes, commits, delays
from benchmarks.memory import memory, processor_seconds
from keyfold import Lakehouse
from keyfold.times import to_iso

EVERY_SECONDS, ROWS_A_FILE, SERIES = 0.5, 20, 100


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.prompt", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="that are measured")
    parser.add_argument("--warm-up", type=float, default=30, help="seconds before")
    parser.add_argument("--key-groups", type=int, default=64)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="keyfold-bench-") as folder:
        _measure(arguments, Path(folder))


def _measure(arguments: argparse.Namespace, folder: Path) -> None:
    lakehouse, landing = Lakehouse(folder / "home"), folder / "landing"
    landing.mkdir()
    home = ("--home", str(lakehouse.home))
    with ExitStack() as stack:
        landed = _Landing(landing)
        landed.start()
        stack.callback(landed.end)
        processes = Processes(folder, os.environ)
        stack.callback(processes.end)
        processes.start("ingest", "ingest", "metrics", "--continuous", "--from", str(landing), "--settle", "0", *home)
        processes.wait(lambda: any(commits(Path(str(lakehouse.events("metrics"))))))
        given = {"order": "arrival", "emit": "all", "key_groups": arguments.key_groups}
        parameters = [text for name, value in given.items() for text in ("--param", f"{name}={value}")]
        processes.start("job", "run", "anomaly_predictions", "--continuous", *parameters, *home)
        processes.wait((lakehouse.job("anomaly_predictions") / "current.json").exists)
        table = Path(str(lakehouse.table("anomaly_predictions")))
        processes.wait(lambda: any(commits(table)))
        time.sleep(arguments.warm_up)
        used = {name: processor_seconds(pid) for name, pid in processes.pids.items()}
        since, load = time.time(), os.getloadavg()[0]
        time.sleep(arguments.seconds)
        until = time.time()
        for name, pid in processes.pids.items():
            took = (processor_seconds(pid) - used[name]) / (until - since)
            print(f"{name}: {took:.2f} processors; memory {memory(pid) >> 20} MiB")
        landed.end()
        processes.wait(lambda: pl.scan_delta(str(table)).select(pl.len()).collect().item() >= landed.rows)
    took, times = delays(table, pl.col("event_time"), since, until)
    half, most = np.quantile(took, [0.5, 0.99])
    print(
        f"{len(took):,} values, {len(times)} commits; landed to committed: p50 {half:.2f} s, p99 {most:.2f} s, from "
        f"{took.min():.2f} to {took.max():.2f}; load {load:.1f}; all {landed.rows:,} rows arrived"
    )


class _Landing(threading.Thread):
    """Lands files, each under a name that is not seen and renamed when it is whole; its rows have the time it had then."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self._folder, self._rng = folder, np.random.default_rng(1)
        self._ended, self.rows = threading.Event(), 0

    def end(self) -> None:
        self._ended.set()
        self.join()

    def run(self) -> None:
        began = time.monotonic()
        while not self._ended.wait(max(0.0, began - time.monotonic())):
            began += EVERY_SECONDS
            self._land()

    def _land(self) -> None:
        values = self._rng.normal(100, 5, ROWS_A_FILE).tolist()
        now = datetime.now(UTC)
        lines = [
            json.dumps({"key": f"series-{at % SERIES}", "timestamp": to_iso(now), "value": value})
            for at, value in enumerate(values, self.rows)
        ]
        aside = self._folder / f".{self.rows}.ndjson"
        aside.write_text("\n".join(lines) + "\n")
        aside.rename(self._folder / f"{self.rows}.ndjson")
        self.rows += len(lines)


if __name__ == "__main__":
    main()
