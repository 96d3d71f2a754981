"""`python -m benchmarks.prompt [--seconds N] [--every S] [--rows N]`: latency from a landed event to its committed prediction.

Two processes run as shipped, `keyfold ingest metrics --continuous` and `keyfold run anomaly_predictions --continuous`. This
process lands a small file at intervals, and watches the rows of the Delta table. A file has landed when it gets its final name;
a row is committed when the log entry that names its data file exists.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.memory import memory, processor_seconds
from keyfold import Lakehouse
from keyfold.storage.place import Place
from keyfold.times import to_iso, to_micros

_KEYFOLD = Path(sys.executable).parent / "keyfold"
_POLL = 0.005
_PATIENCE = 120.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.prompt", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="that are measured")
    parser.add_argument("--warm-up", type=float, default=30, help="seconds before")
    parser.add_argument("--every", type=float, default=0.5, help="seconds from one file to the next")
    parser.add_argument("--rows", type=int, default=20, help="of a file")
    parser.add_argument("--keys", type=int, default=100, help="series")
    parser.add_argument("--model", default="rarity")
    parser.add_argument("--learn", default="every_event", choices=["every_event", "refresh"])
    parser.add_argument("--key-groups", type=int, default=64)
    parser.add_argument("--keep", type=Path, help="folder to work in, which is kept")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="keyfold-bench-") as folder:
        _measure(arguments, arguments.keep or Path(folder))


def _measure(arguments: argparse.Namespace, folder: Path) -> None:
    lakehouse, landing = Lakehouse(folder / "home"), folder / "landing"
    landing.mkdir(parents=True, exist_ok=True)
    producer = Producer(landing, arguments.rows, arguments.keys)
    producer.land()
    home = ("--home", str(lakehouse.home))
    ingest = _start(
        folder, "ingest", "ingest", "metrics", "--continuous", "--from", str(landing), "--settle", "0", *home
    )
    processes = {"ingest": ingest}
    try:
        _wait((lakehouse.events("metrics") / "_delta_log" / "00000000000000000001.json").exists, processes)
        given = {"order": "arrival", "emit": "all", "model": arguments.model, "learn": arguments.learn}
        given["key_groups"] = str(arguments.key_groups)
        parameters = [text for name, value in given.items() for text in ("--param", f"{name}={value}")]
        processes["job"] = _start(
            folder, "job", "run", "anomaly_predictions", "--continuous", "--json", *parameters, *home
        )
        _wait((lakehouse.job("anomaly_predictions") / "current.json").exists, processes)
        watcher = Watcher(lakehouse.table("anomaly_predictions"))
        _wait(lambda: watcher.look() > 0, processes)
        producer.run(arguments.every, arguments.warm_up, watcher)
        sizes = {name: [memory(process.pid) >> 20] for name, process in processes.items()}
        since, commits = len(producer.landed), watcher.commits
        processor = {name: processor_seconds(process.pid) for name, process in processes.items()}
        producer.run(arguments.every, arguments.seconds, watcher)
        _wait(lambda: watcher.look() >= producer.rows, processes)
        for name, process in processes.items():
            sizes[name].append(memory(process.pid) >> 20)
            used = processor_seconds(process.pid) - processor[name]
            print(
                f"{name}: {used / arguments.seconds:.2f} processors; memory {sizes[name][0]} MiB, then {sizes[name][1]}"
            )
        print(f"{watcher.commits - commits} batches")
        _report(arguments, producer, watcher, since)
    finally:
        for name, process in processes.items():
            process.send_signal(signal.SIGTERM)
            code = process.wait(60)
            print(f"{name} ended with {code}")


def _start(folder: Path, name: str, *command: str) -> subprocess.Popen[bytes]:
    with open(folder / f"{name}.log", "wb") as log:
        return subprocess.Popen([str(_KEYFOLD), *command], stdout=log, stderr=subprocess.STDOUT)


@dataclass
class Producer:
    """Lands files, each written under a hidden name and renamed when it is complete.

    Attributes:
        landed: when each file landed, by the event time that all of its rows have.
        rows: total number of rows.
    """

    landing: Path
    rows_a_file: int
    keys: int
    landed: dict[int, float] = field(default_factory=dict)
    rows: int = 0

    def land(self) -> None:
        """Land a file."""
        now = datetime.now(UTC)
        at = to_micros(pl.Series([now]).cast(pl.Datetime("us", "UTC"))).item()
        rng = np.random.default_rng(at)
        time_text = to_iso(now)
        lines = [
            json.dumps({"key": f"series-{(self.rows + row) % self.keys}", "timestamp": time_text, "value": value})
            for row, value in enumerate(rng.normal(100, 5, self.rows_a_file).tolist())
        ]
        name = f"{at}.ndjson"
        aside = self.landing / f".{name}"
        aside.write_text("\n".join(lines) + "\n")
        os.replace(aside, self.landing / name)
        self.landed[at] = time.monotonic()
        self.rows += self.rows_a_file

    def run(self, every: float, seconds: float, watcher: "Watcher") -> None:
        """Land files for a number of seconds, and watch the table meanwhile."""
        stop = threading.Event()
        looking = threading.Thread(target=watcher.until, args=(stop,))
        looking.start()
        began = time.monotonic()
        for number in range(int(seconds / every)):
            time.sleep(max(0.0, began + number * every - time.monotonic()))
            self.land()
        stop.set()
        looking.join()


class Watcher:
    """Follows a Delta table's log.

    Attributes:
        seen: when the first row of each event time was committed.
        commits: number of commits.
    """

    def __init__(self, table: Place) -> None:
        self._table, self._version, self._rows = table, -1, 0
        self.seen: dict[int, float] = {}

    @property
    def commits(self) -> int:
        return self._version

    def until(self, stop: threading.Event) -> None:
        """Look until `stop` is set."""
        while not stop.is_set():
            self.look()
            time.sleep(_POLL)

    def look(self) -> int:
        """Read new log entries, and return the number of rows so far."""
        while (entry := self._table / "_delta_log" / f"{self._version + 1:020d}.json").exists():
            now = time.monotonic()
            self._version += 1
            for line in entry.read_text().splitlines():
                if (added := json.loads(line).get("add")) is not None:
                    times = pl.read_parquet(self._table / added["path"], columns=["event_time"])["event_time"]
                    self._rows += len(times)
                    for at in to_micros(times.unique()).tolist():
                        self.seen.setdefault(at, now)
        return self._rows


def _wait(is_so: Callable[[], bool], processes: dict[str, subprocess.Popen[bytes]]) -> None:
    end = time.monotonic() + _PATIENCE
    while not is_so():
        dead = [name for name, process in processes.items() if process.poll() is not None]
        if dead or time.monotonic() > end:
            raise SystemExit(f"it did not come to that: {', '.join(dead) or 'no process'} has ended")
        time.sleep(0.05)


def _report(arguments: argparse.Namespace, producer: Producer, watcher: Watcher, since: int) -> None:
    landed = list(producer.landed.items())[since:]
    latencies = np.array([watcher.seen[at] - then for at, then in landed])
    rate = len(landed) * arguments.rows / arguments.seconds
    print(f"{len(landed)} files of {arguments.rows} values, {rate:,.0f} values/s; load {os.getloadavg()[0]:.1f}")
    half, most = np.quantile(latencies, [0.5, 0.99])
    print(
        f"landed to committed: p50 {half:.2f} s, p99 {most:.2f} s, from {latencies.min():.2f} to {latencies.max():.2f}"
    )
    print(f"commits: {watcher.commits}; rows: {watcher.look():,} of {producer.rows:,}")


if __name__ == "__main__":
    main()
