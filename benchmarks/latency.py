"""`python -m benchmarks.latency [--job J] [--seconds N]`: the time from an event to its committed row, in continuous mode.

All processes are real: a source of events, `keyfold ingest STREAM --continuous` and `keyfold run JOB --continuous`. They are
not disturbed by the measurement: at the end, the logs of the Delta tables say when each row was committed (the modification
time of the log entry that names its file), and the rows say when they were due.

- `moving_averages`: readings come from Kafka at a steady rate; each has a row, which is due at the time of its message.
- `vehicle_trips`: points come from Kafka; trips end by a timer once their vehicles are silent, and a row is due that long after
  the trip's last point.

The benchmark fails unless every event is counted exactly once at the end.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from benchmarks.continuous import MakeEvent, Processes, SteadyProducer
from benchmarks.usage import memory, processor_seconds
from keyfold import Lakehouse
from keyfold.ingestion.kafka.settings import BOOTSTRAP_VARIABLE
from keyfold.times import to_micros
from spark_jobs.streams import STREAMS
from tests.kafka_broker import running_broker, why_not

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
        make: makes an event for Kafka.
        given: parameters besides the common ones.
        due: when a row of the job's table is due.
        events: for each table, the number of events that its rows stand for. With late events they make all events.
    """

    job: str
    stream: str
    make: MakeEvent
    given: Mapping[str, str]
    due: pl.Expr
    events: Mapping[str, pl.Expr]


WORKLOADS = {
    one.job: one
    for one in (
        Workload(
            "moving_averages",
            "weather",
            reading,
            {"min_readings": "1", "timeout": "10m"},
            pl.col("end_time"),
            {"moving_averages": pl.len()},
        ),
        Workload(
            "vehicle_trips",
            "telemetry",
            point,
            {"silence": f"{_SILENCE.seconds}s", "stop_after": "1h"},
            pl.col("end_time") + _SILENCE,
            {"vehicle_trips": pl.col("n_points").sum(), "vehicle_stops": pl.col("n_points").sum()},
        ),
    )
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency", description=__doc__)
    parser.add_argument("--job", default="moving_averages", choices=list(WORKLOADS))
    parser.add_argument("--rate", type=float, default=20_000, help="events a second from Kafka")
    parser.add_argument("--seconds", type=float, default=60, help="that are measured")
    parser.add_argument("--warm-up", type=float, default=45, help="seconds before, Spark's start not among them")
    parser.add_argument("--partitions", type=int, default=2, help="of the topic")
    parser.add_argument("--delay", default="0.1s", help="watermark_delay: how far out of order events may come")
    parser.add_argument("--key-groups", type=int, default=8)
    parser.add_argument("--keep", type=Path, help="folder to work in, which is kept")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="keyfold-bench-") as folder:
        measure(arguments, arguments.keep or Path(folder))


def measure(arguments: argparse.Namespace, folder: Path) -> None:
    """Run the benchmark once, and print the results."""
    work, lakehouse, environment = WORKLOADS[arguments.job], Lakehouse(folder / "home"), dict(os.environ)
    events = Path(str(lakehouse.events(work.stream)))
    if reason := why_not():
        raise SystemExit(reason)
    with ExitStack() as stack:
        (folder / "kafka").mkdir(parents=True)
        broker = stack.enter_context(running_broker(folder / "kafka"))
        environment[BOOTSTRAP_VARIABLE] = broker.bootstrap
        topic = broker.topic(arguments.partitions)
        producer = stack.enter_context(SteadyProducer(broker.bootstrap, topic, work.make, arguments.rate))
        pids = {"broker": broker.process.pid, "producer": producer.pid}
        # Both processes handle signals while they start, so an error before the end can stop them too.
        processes = Processes(folder, environment)
        stack.callback(processes.end)
        home = ("--home", str(lakehouse.home))
        processes.start("ingest", "ingest", work.stream, "--continuous", "--from", f"kafka://{topic}", *home)
        processes.wait(lambda: any(commits(events)))
        # With an idle timeout, event time advances when no more events come, so that the last rows do not wait.
        given = {"watermark_delay": arguments.delay, "idle_timeout": "3s", "key_groups": str(arguments.key_groups)}
        parameters = [
            text for name, value in {**given, **work.given}.items() for text in ("--param", f"{name}={value}")
        ]
        processes.start("job", "run", work.job, "--continuous", *parameters, *home)
        processes.wait(lambda: work.job in lakehouse.tables())
        table = Path(str(lakehouse.table(work.job)))
        processes.wait(lambda: any(commits(table)))
        time.sleep(arguments.warm_up)
        pids |= processes.pids
        used = {name: processor_seconds(pid) for name, pid in pids.items()}
        since, began = time.time(), time.monotonic()
        time.sleep(arguments.seconds)
        until, took, load = time.time(), time.monotonic() - began, os.getloadavg()[0]
        for name, pid in pids.items():
            print(
                f"{name}: {(processor_seconds(pid) - used[name]) / took:.2f} processors, memory {memory(pid) >> 20} MiB"
            )
        producer.stop()
        processes.wait(lambda: counted(lakehouse, work) >= producer.sent)
    print(f"{work.job}, {os.cpu_count()} processors, load {load:.1f}")
    tell(f"events.{work.stream}", events, pl.col(STREAMS[work.stream].event_time or ""), since, until)
    tell(work.job, table, work.due, since, until)
    found = counted(lakehouse, work)
    print(f"{producer.sent:,} events sent, {found:,} found in tables; {repeated(lakehouse, work):,} rows twice")
    if found != producer.sent or repeated(lakehouse, work):
        raise SystemExit("events are lost, or doubled")


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


def tell(name: str, table: Path, due: pl.Expr, since: float, until: float) -> None:
    """Print the delays of the rows of a table."""
    took, times = delays(table, due, since, until)
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
