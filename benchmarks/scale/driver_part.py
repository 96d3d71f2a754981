"""`python -m benchmarks.scale.driver_part`: measure the driver's own work for a batch, by the number of files read and written.

On a large cluster, a batch reads one file per ingest task, and writes one file per task and table. The driver lists new files
from the event table's log, plans, writes the plan, collects the tasks' reports, writes the commit record and commits; each
reading task reads the plan. The files do not exist, since nothing here reads them. One process, no Spark.
"""

import argparse
import json
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import Row

from benchmarks.scale.balances import BOOKING, START, STREAM, balances
from keyfold import Lakehouse
from keyfold.journal import Journal
from keyfold.journal.clock import read_clock
from keyfold.keyed.generation.batch_records import KeyedDone, KeyedPlan
from keyfold.keyed.plans.planning import RunBounds, plan_run
from keyfold.keyed.running.batches import make_done
from keyfold.keyed.running.partition_report import NOTHING, REPORT
from keyfold.keyed.running.write import read_reports
from keyfold.lakehouse import create_table
from keyfold.lakehouse.commits import append_files
from keyfold.lakehouse.data_files import WrittenFile

_BATCHES = 3


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale.driver_part", description=__doc__)
    parser.add_argument("--files", type=int, nargs="*", default=[10, 100, 1_000, 10_000], help="a batch, in and out")
    for files in parser.parse_args().files:
        with tempfile.TemporaryDirectory(prefix="keyfold-driver-") as folder:
            spent, sizes = work(Path(folder), files)
        figures = ", ".join(f"{name} {seconds * 1000:,.0f}" for name, seconds in spent.items())
        print(
            f"{files:,} files in and out: processor ms of the last of {_BATCHES} batches: {figures}; in all {sum(spent.values()):.2f} s; "
            + ", ".join(f"{name} {size / 1000:,.0f} kB" for name, size in sizes.items()),
            flush=True,
        )


def work(folder: Path, files: int) -> tuple[dict[str, float], dict[str, int]]:
    """Do the driver's part of a few batches, and return the last one's processor seconds by part, and sizes in bytes."""
    lakehouse, job = Lakehouse(folder), balances(64)
    events, output = lakehouse.events(STREAM), folder / "balances"
    for table in (events, output):
        create_table(table, BOOKING)
    journal = Journal(folder / "journal", KeyedPlan, KeyedDone)
    spent: dict[str, float] = {}

    @contextmanager
    def timed(name: str) -> Iterator[None]:
        before = time.process_time()
        yield
        spent[name] = time.process_time() - before

    for batch in range(_BATCHES):
        append_files(events, _written(files, batch), "ingest", batch)
        with timed("list what came, plan"):
            done = journal.last_done()
            planned = plan_run(job, {f"events.{job.stream.name}": events}, done, None, read_clock(), RunBounds(1 << 60))
        with timed("write the plan"):
            journal.write_plans(planned.plans)
        with timed("read it, each task"):
            plan = journal.plan(batch)
        assert plan is not None  # noqa: S101 - it was written just now
        reports = _reports(files)
        with timed("take reports"):
            worked = read_reports(reports)
        with timed("make and write the commit record"):
            done = make_done(job, done, plan, worked, 1.0)
            journal.write_done(done)
        with timed("commit"):
            append_files(output, done.tables[job.name], "balances", batch)
    sizes = {
        "plan": (folder / "journal" / f"{_BATCHES - 1:09d}.plan.json").stat().st_size,
        "done record": (folder / "journal" / f"{_BATCHES - 1:09d}.done.json").stat().st_size,
    }
    return spent, sizes


def _written(files: int, batch: int) -> list[WrittenFile]:
    time = START.replace(hour=batch).isoformat(timespec="milliseconds")
    return [
        WrittenFile(
            path=f"part-{uuid.uuid4().hex}.parquet", rows=10_000, bytes=200_000, first={"at": time}, last={"at": time}
        )
        for _ in range(files)
    ]


def _reports(files: int) -> list[Row]:
    report = json.dumps(NOTHING._replace(events=10_000)._asdict())
    rows: list[Any] = []
    for file in _written(files, 0):
        rows += [
            Row(table="balances", report=json.dumps(file.model_dump())),
            Row(table=REPORT, report=report),
        ]
    return rows


if __name__ == "__main__":
    main()
