"""`python -m benchmarks.soak [--batches 10000]`: find what grows over many batches of continuous runs.

All processes are real: a broker, a producer of a few readings at a time, `keyfold ingest weather --continuous` and `keyfold run
moving_averages --continuous`. They run at full speed until both have done this many batches.

At intervals it prints memory by kind of process (shared memory counted once), open files, and files by folder. What must not
grow should be the same from line to line.
"""

import argparse
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

from deltalake import DeltaTable

from benchmarks.events import SteadyProducer
from benchmarks.processes import Processes
from benchmarks.usage import family, role, set_size
from keyfold import Lakehouse
from keyfold.ingestion.sources.kafka.settings import BOOTSTRAP_VARIABLE
from keyfold.storage.place import Place
from tests.kafka_broker import running_broker, why_not

JOB = "moving_averages"
MARKS = (100, 300, 1_000, 2_000, 3_000, 5_000, 7_500, 10_000)
_KEYS = 50
_GIVEN = {"min_readings": "1", "timeout": "10s", "watermark_delay": "0.1s", "idle_after": "10s", "key_groups": "4"}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--batches", type=int, default=10_000, help="of each process")
    parser.add_argument("--rate", type=float, default=200, help="readings a second")
    parser.add_argument("--keep", type=Path, help="folder to work in, which is kept")
    arguments = parser.parse_args()
    if why_not():
        raise SystemExit(why_not())
    with tempfile.TemporaryDirectory(prefix="keyfold-bench-") as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
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
    found: Counter[str] = Counter()
    for one in family(pid):
        with suppress(OSError):
            found["open files"] += len(os.listdir(f"/proc/{one}/fd"))
            found[role(one, pid)] += set_size(one) >> 20
    return found


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
