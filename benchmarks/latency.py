"""`python -m benchmarks.kafka_prompt [--job J] [--rate N] [--seconds N]`: latency from an event in Kafka to its committed row.

All processes are real: a broker, a producer at a steady rate, `keyfold ingest STREAM --continuous` and `keyfold run JOB
--continuous`. They are not disturbed by the measurement: at the end, the logs of the Delta tables say when each row was
committed (the modification time of the log entry that names its file), and the rows say when they were due.

- `moving_averages`: each reading has a row, which is due at the time of the reading's message.
- `vehicle_trips`: trips end by a timer once their vehicles are silent; a row is due this long after the trip's last point.

The benchmark fails unless every event is counted exactly once at the end.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from benchmarks.kafka_events import MakeEvent, SteadyProducer
from benchmarks.memory import memory, processor_seconds
from keyfold import Lakehouse
from keyfold.ingestion.sources.kafka.settings import BOOTSTRAP_VARIABLE
from keyfold.times import to_micros
from tests.kafka_broker import running_broker, why_not

_KEYFOLD = Path(sys.executable).parent / "keyfold"
_PATIENCE = 180.0
_KEYS = 10_000
_POINTS_A_TRIP = 20
_SILENCE = timedelta(seconds=5)

Times = npt.NDArray[np.float64]


def reading(number: int, time: str) -> bytes:
    """A reading of a station; stations take turns."""
    pressure, temp = 1000 + number % 37, 50 + number % 23
    return (
        f'{{"station_id":"S{number % _KEYS:05d}","time":"{time}","temp":{temp}.4,"dewp":41.2,"humid":63.5,'
        f'"wind_dir":240.0,"wind_speed":11.5,"precip":0.0,"pressure":{pressure}.25,"visib":10.0}}'
    ).encode()


def point(number: int, time: str) -> bytes:
    """A point of a moving vehicle. After a number of points, the vehicle falls silent, and another one takes its place."""
    turn, place = divmod(number, _KEYS)
    # Vehicles change at different times: each place started with a different number of points.
    vehicle = (turn + place % _POINTS_A_TRIP) // _POINTS_A_TRIP
    return (
        f'{{"vehicle_id":"V{place:05d}-{vehicle}","time":"{time}","latitude":48.{number % 8999 + 1000},'
        f'"longitude":11.{number % 7919 + 1000},"speed":{30 + number % 60}.5,"fuel_level":{40 - number % 20}.25,'
        f'"acceleration":0.4,"bearing":90.0,"engine_temperature":90.5}}'
    ).encode()


@dataclass(frozen=True)
class Workload:
    """A job under load.

    Attributes:
        job, stream: names of the job and its stream.
        make: makes an event.
        given: parameters besides the common ones.
        due_after: how long after `end_time` a row of the job's table is due.
        events: for each table, the number of events that its rows stand for. With late events they make all events.
    """

    job: str
    stream: str
    make: MakeEvent
    given: Mapping[str, str]
    due_after: timedelta
    events: Mapping[str, pl.Expr]


WORKLOADS = {
    one.job: one
    for one in (
        Workload(
            "moving_averages",
            "weather",
            reading,
            {"min_readings": "1", "timeout": "10m"},
            timedelta(0),
            {"moving_averages": pl.len()},
        ),
        Workload(
            "vehicle_trips",
            "telemetry",
            point,
            {"silence": f"{_SILENCE.seconds}s", "stop_after": "1h"},
            _SILENCE,
            {"vehicle_trips": pl.col("n_points").sum(), "vehicle_stops": pl.col("n_points").sum()},
        ),
    )
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kafka_prompt", description=__doc__)
    parser.add_argument("--job", default="moving_averages", choices=list(WORKLOADS))
    parser.add_argument("--rate", type=float, default=20_000, help="events a second")
    parser.add_argument("--seconds", type=float, default=60, help="that are measured")
    parser.add_argument("--warm-up", type=float, default=45, help="seconds before, Spark's start not among them")
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--delay", default="0.1s", help="watermark_delay: how far out of order events may come")
    parser.add_argument("--key-groups", type=int, default=8)
    parser.add_argument("--keep", type=Path, help="folder to work in, which is kept")
    arguments = parser.parse_args()
    if why_not():
        raise SystemExit(why_not())
    with tempfile.TemporaryDirectory(prefix="keyfold-bench-") as folder:
        measure(arguments, arguments.keep or Path(folder))


def measure(arguments: argparse.Namespace, folder: Path) -> None:
    """Run the benchmark once, and print the results."""
    work, lakehouse = WORKLOADS[arguments.job], Lakehouse(folder / "home")
    (folder / "kafka").mkdir(parents=True)
    with ExitStack() as stack:
        broker = stack.enter_context(running_broker(folder / "kafka"))
        topic = broker.topic(arguments.partitions)
        producer = SteadyProducer(broker.bootstrap, topic, work.make, arguments.rate)
        stack.enter_context(producer)
        # Both processes handle signals while they start, so an error before the end can stop them too.
        processes = Processes(folder, {**os.environ, BOOTSTRAP_VARIABLE: broker.bootstrap})
        stack.callback(processes.end)
        home = ("--home", str(lakehouse.home))
        processes.start("ingest", "ingest", work.stream, "--continuous", "--from", f"kafka://{topic}", *home)
        processes.wait(lambda: any(commits(Path(str(lakehouse.events(work.stream))))))
        # With an idle timeout, event time advances when no more events come, so that the last rows do not wait.
        given = {"watermark_delay": arguments.delay, "idle_after": "3s", "key_groups": str(arguments.key_groups)}
        parameters = [
            text for name, value in {**given, **work.given}.items() for text in ("--param", f"{name}={value}")
        ]
        processes.start("job", "run", work.job, "--continuous", *parameters, *home)
        processes.wait(lambda: work.job in lakehouse.tables() and any(commits(Path(str(lakehouse.table(work.job))))))
        time.sleep(arguments.warm_up)
        pids = {**processes.pids, "broker": broker.process.pid, "producer": producer.pid}
        used = {name: processor_seconds(pid) for name, pid in pids.items()}
        since, began = time.time(), time.monotonic()
        time.sleep(arguments.seconds)
        until, took, load = time.time(), time.monotonic() - began, os.getloadavg()[0]
        for name, pid in pids.items():
            print(
                f"{name}: {(processor_seconds(pid) - used[name]) / took:.2f} processors, memory {memory(pid) >> 20} MiB"
            )
        producer.stop()
        tell(arguments, lakehouse, work, since, until, load)
        processes.wait(lambda: counted(lakehouse, work) >= producer.sent)
    found = counted(lakehouse, work)
    print(f"{producer.sent:,} events sent, {found:,} found in tables; {repeated(lakehouse, work):,} rows twice")
    if found != producer.sent or repeated(lakehouse, work):
        raise SystemExit("events are lost, or doubled")


class Processes:
    """Commands that run until they are stopped.

    Args:
        folder: the folder for their logs.
        environment: their environment variables.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder, self._environment = folder, dict(environment)
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def pids(self) -> dict[str, int]:
        """By name."""
        return {name: process.pid for name, process in self._running.items()}

    def start(self, name: str, *command: str) -> None:
        """Start `keyfold COMMAND`."""
        with open(self._folder / f"{name}.log", "wb") as log:
            self._running[name] = subprocess.Popen(
                [str(_KEYFOLD), *command], stdout=log, stderr=subprocess.STDOUT, env=self._environment
            )

    def wait(self, is_so: Callable[[], bool], patience: float = _PATIENCE) -> None:
        """Wait for a condition. If it takes longer than `patience` seconds, stop the benchmark."""
        end = time.monotonic() + patience
        while not is_so():
            for name, process in self._running.items():
                if process.poll() is not None:
                    raise SystemExit(f"{name} has ended: {(self._folder / f'{name}.log').read_text()[-2000:]}")
            if time.monotonic() > end:
                raise SystemExit("it did not come to that")
            time.sleep(0.1)

    def end(self) -> None:
        """Stop all processes, and check that they end."""
        for process in self._running.values():
            process.send_signal(signal.SIGTERM)
        for name, process in self._running.items():
            print(f"{name} ended with {process.wait(120)}")


@dataclass(frozen=True)
class Commit:
    """An entry of a Delta table's log that added rows.

    Attributes:
        at: when it was written, in seconds since 1970.
        files: the files that it added.
    """

    at: float
    files: tuple[Path, ...]


def commits(table: Path) -> Iterator[Commit]:
    """The entries of a table's log that added rows, in order."""
    for entry in sorted((table / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in entry.read_text().splitlines()]
        added = [one["add"]["path"] for one in actions if one.get("add", {}).get("dataChange")]
        if added:
            yield Commit(entry.stat().st_mtime, tuple(table / path for path in added))


def delays(table: Path, due: pl.Expr, since: float, until: float) -> tuple[Times, list[float]]:
    """The delays, in seconds, from due time to commit of all rows due in a span; and the times of the span's commits."""
    found, times = [np.empty(0)], []
    for one in commits(table):
        if since <= one.at < until:
            times.append(one.at)
        for file in one.files:
            due_at = to_micros(pl.scan_parquet(file).select(due).collect().to_series()) / 1e6
            found.append(one.at - due_at[(due_at >= since) & (due_at < until)])
    return np.concatenate(found), times


def tell(
    arguments: argparse.Namespace, lakehouse: Lakehouse, work: Workload, since: float, until: float, load: float
) -> None:
    """Print the delays of rows in the event table and in the job's table."""
    # The span ends earlier, so that its last rows had time to be committed.
    time.sleep(20)
    print(f"{work.job} at {arguments.rate:,.0f} events/s, {os.cpu_count()} processors, load {load:.1f}")
    hops = {
        f"events.{work.stream}": (lakehouse.events(work.stream), pl.col("time")),
        work.job: (lakehouse.table(work.job), pl.col("end_time") + work.due_after),
    }
    for name, (table, due) in hops.items():
        took, times = delays(Path(str(table)), due, since, until)
        half, most = np.quantile(took, [0.5, 0.99]) if len(took) else (np.nan, np.nan)
        print(
            f"{name}: {len(took):,} rows, {len(times)} commits; due to committed: p50 {half:.2f} s, p99 {most:.2f} s, from "
            f"{took.min(initial=np.inf):.2f} to {took.max(initial=0):.2f}; longest pause between commits "
            f"{max(np.diff(times), default=np.nan):.2f} s"
        )


def counted(lakehouse: Lakehouse, work: Workload) -> int:
    """The number of events that the job's tables stand for, with late events."""
    tables = {**work.events, f"late.{work.job}": pl.len()}
    return sum(
        int(pl.scan_delta(str(lakehouse.table(name))).select(events).collect().item() or 0)
        for name, events in tables.items()
    )


def repeated(lakehouse: Lakehouse, work: Workload) -> int:
    """The number of duplicate rows in the job's table."""
    rows = pl.scan_delta(str(lakehouse.table(work.job))).collect()
    return int(rows.is_duplicated().sum())


if __name__ == "__main__":
    main()
