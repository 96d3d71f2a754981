"""`python -m benchmarks.soak [--batches 10000]`: find what grows over many batches of continuous runs.

All processes are real: a broker, a producer of a few readings at a time, `keyfold ingest weather --continuous` and `keyfold run
moving_averages --continuous`. They run at full speed until both have done this many batches. `--without-spark` runs only the
job in this process: the engine's code, with a loop instead of Spark (`tests.keyfold.keyed.without_spark`), which does ten times
as many batches in the same time.

At intervals it prints memory by kind of process (shared memory counted once), open files, and files by folder. What must not
grow should be the same from line to line.
"""

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
from deltalake import DeltaTable

from benchmarks.kafka_events import SteadyProducer
from benchmarks.kafka_prompt import Processes
from benchmarks.memory import family, set_size
from keyfold import Lakehouse, build_job
from keyfold.ingestion.sources.kafka.settings import BOOTSTRAP_VARIABLE
from keyfold.keyed.rows.codec import polars_schema
from keyfold.keyed.runner import RunOptions, run_continuously
from keyfold.maintenance.recording import record_job
from keyfold.runs.table_maintenance import TableMaintenance, tables_of_job
from keyfold.storage.place import Place
from spark_jobs.jobs.moving_averages.job import MOVING_AVERAGES
from spark_jobs.streams import WEATHER
from tests.kafka_broker import running_broker, why_not
from tests.keyfold.keyed.without_spark import SPARK

JOB = "moving_averages"
MARKS = (100, 300, 1_000, 2_000, 3_000, 5_000, 7_500, 10_000)
_KEYS = 50
_GIVEN = {"min_readings": "1", "timeout": "10s", "watermark_delay": "0.1s", "idle_after": "10s", "key_groups": "4"}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--batches", type=int, default=10_000, help="of each process; of the job without Spark")
    parser.add_argument("--rate", type=float, default=200, help="readings a second")
    parser.add_argument("--without-spark", action="store_true")
    parser.add_argument("--keep", type=Path, help="folder to work in, which is kept")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="keyfold-bench-") as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if arguments.without_spark:
            without_spark(folder, arguments.batches)
        elif why_not():
            raise SystemExit(why_not())
        else:
            as_shipped(folder, arguments.batches, arguments.rate)


def reading(number: int, time: str) -> bytes:
    """A reading of a station; stations take turns."""
    return f'{{"station_id":"S{number % _KEYS}","time":"{time}","temp":51.5,"pressure":1013.25}}'.encode()


def as_shipped(folder: Path, batches: int, rate: float) -> None:
    """Run ingest and job as shipped, in two processes."""
    lakehouse = Lakehouse(folder / "home")
    (folder / "kafka").mkdir()
    with ExitStack() as stack:
        broker = stack.enter_context(running_broker(folder / "kafka"))
        topic = broker.topic(2)
        stack.enter_context(SteadyProducer(broker.bootstrap, topic, reading, rate))
        processes = Processes(folder, {**os.environ, BOOTSTRAP_VARIABLE: broker.bootstrap})
        stack.callback(processes.end)
        home = ("--home", str(lakehouse.home))
        processes.start("ingest", "ingest", "weather", "--continuous", "--from", f"kafka://{topic}", *home)
        processes.wait(lambda: batches_done(lakehouse.ingest("weather")) > 0)
        parameters = [text for name, value in _GIVEN.items() for text in ("--param", f"{name}={value}")]
        processes.start("job", "run", JOB, "--continuous", *parameters, *home)
        processes.wait(lambda: job_batches(lakehouse) > 0)
        for mark in marks(batches):
            processes.wait(
                lambda mark=mark: min(batches_done(lakehouse.ingest("weather")), job_batches(lakehouse)) >= mark,
                patience=1e9,
            )
            print(
                f"ingest at {batches_done(lakehouse.ingest('weather')):,} batches, {JOB} at {job_batches(lakehouse):,}"
            )
            for name, pid in processes.pids.items():
                print(f"  {name}: {in_a_line(of_process(pid))}")
            print(f"  files: {in_a_line(of_files(lakehouse))}", flush=True)


def without_spark(folder: Path, batches: int) -> None:
    """Run the job in this process, with a loop instead of Spark."""
    lakehouse, job = Lakehouse(folder / "home"), build_job(MOVING_AVERAGES, _GIVEN)
    stop, maintenance = (
        threading.Event(),
        TableMaintenance(lakehouse, lambda: tables_of_job(lakehouse, job), lambda: record_job(lakehouse, JOB)),
    )
    land(lakehouse, 0)
    options = RunOptions(on_batch=lambda *_: maintenance.after_batch())
    running = threading.Thread(
        target=run_continuously,
        args=(SPARK, lakehouse, job),
        kwargs={"stop": stop, "options": options, "every": timedelta(milliseconds=10)},
    )
    running.start()
    try:
        for mark in marks(batches):
            while (done := job_batches(lakehouse)) < mark:
                if not running.is_alive():
                    raise SystemExit("the run has ended")
                land(lakehouse, done + 1)
                while job_batches(lakehouse) == done and running.is_alive():
                    time.sleep(0.005)
            print(f"{JOB} at {mark:,} batches")
            print(f"  process: {in_a_line(of_process(os.getpid()))}")
            print(f"  files: {in_a_line(of_files(lakehouse))}", flush=True)
    finally:
        stop.set()
        running.join()


def land(lakehouse: Lakehouse, number: int) -> None:
    """Add a few readings to the event table."""
    rows = [
        {"station_id": f"S{(number * 5 + at) % _KEYS}", "time": datetime.now(UTC), "temp": 51.5, "pressure": 1013.25}
        for at in range(5)
    ]
    schema = polars_schema(WEATHER.event_schema)
    frame = pl.DataFrame(rows, schema={name: kind for name, kind in schema.items() if name in rows[0]})
    frame = frame.with_columns(pl.lit(None, kind).alias(name) for name, kind in schema.items() if name not in rows[0])
    table = lakehouse.events("weather")
    table.parent.mkdir(parents=True, exist_ok=True)
    frame.select(list(schema)).write_delta(str(table), mode="append")


def marks(batches: int) -> Iterator[int]:
    """The batches after which to print, with the last one."""
    yield from (mark for mark in MARKS if mark < batches)
    yield batches


def batches_done(folder: Place) -> int:
    """The number of finished batches in a journal, by the names of its records."""
    numbers = [int(path.name[:9]) for path in (folder / "journal").glob("*.done.json")]
    return max(numbers, default=-1) + 1


def job_batches(lakehouse: Lakehouse) -> int:
    """The number of batches that the job has finished."""
    return max((batches_done(folder) for folder in lakehouse.job(JOB).glob("generation-*")), default=0)


def of_process(pid: int) -> Mapping[str, float]:
    """Memory in MiB by kind of process, and open files of all."""
    found: dict[str, float] = {"driver": 0, "java": 0, "workers": 0, "open files": 0}
    for one in family(pid):
        try:
            name = Path(f"/proc/{one}/comm").read_text().strip()
            found["open files"] += len(os.listdir(f"/proc/{one}/fd"))
        except OSError:
            continue
        kind = "driver" if one == pid else "java" if name == "java" else "workers"
        found[kind] += set_size(one) >> 20
    return {name: count for name, count in found.items() if count}


def of_files(lakehouse: Lakehouse) -> Mapping[str, float]:
    """Number of files by folder; for tables: in the current version, on disk, and in the log."""
    found: dict[str, float] = {}
    ingest, generations = lakehouse.ingest("weather"), sorted(lakehouse.job(JOB).glob("generation-*"))
    folders: list[tuple[str, Place]] = [("ingest journal", ingest / "journal"), ("ids", ingest / "ids")]
    for generation in generations[-1:]:
        folders += [("job journal", generation / "journal"), ("checkpoint", generation / "checkpoint")]
    found |= {name: count(folder) for name, folder in folders if folder.is_dir()}
    tables: dict[str, Place] = {"events": lakehouse.events("weather")}
    tables |= {
        name: path for name, path in lakehouse.tables().items() if name in (JOB, f"latest_{JOB}", "station_sessions")
    }
    for name, path in tables.items():
        if (path / "_delta_log").is_dir():
            log = count(path / "_delta_log")
            live, began = len(DeltaTable(str(path)).file_uris()), time.monotonic()
            DeltaTable(str(path)).version()
            opened = (time.monotonic() - began) * 1000
            found[name] = live
            print(
                f"  {name}: {live:,} live files, {count(path) - log:,} on disk, log {log:,}; opened in {opened:.0f} ms"
            )
    return found


def count(folder: Place) -> int:
    """Files below a folder."""
    return sum(len(names) for _, _, names in os.walk(str(folder)))


def in_a_line(counts: Mapping[str, float]) -> str:
    """For people."""
    return ", ".join(f"{name} {count:,.0f}" for name, count in counts.items())


if __name__ == "__main__":
    main()
