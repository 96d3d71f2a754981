"""Runs in a process of their own that something happens to, and what their tables hold in the end.

The work is `crash_child`'s: ingest and ride summaries in small batches, late rides too.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from keyfold.ingestion import ingest_totals
from keyfold.lakehouse import Lakehouse
from keyfold.runners import Runners
from keyfold.stream import INGESTED_AT
from spark_jobs.simulation import simulate
from spark_jobs.streams import RIDE_POINTS
from tests.chaos.crash_child import IN_TIME, LATE, process
from tests.lake import Lake

REPOSITORY = Path(__file__).parents[2]
PATIENCE = 300

Child = subprocess.Popen[bytes]
Rows = Counter[tuple[str, Any]]


@dataclass(frozen=True)
class Unbroken:
    """What a run that nothing happened to has made of a landing folder.

    Attributes:
        landing: the folder.
        rows: how often each row is in a table, by table and row; the counts that the runs kept are rows too.
    """

    landing: Path
    rows: Rows


def unbroken_run(spark: Runners, folder: Path) -> Unbroken:
    """Land rides, and work on them without any trouble."""
    landing = folder / "landing"
    start = datetime(2026, 1, 1, tzinfo=UTC)
    simulate("ride_points", landing / IN_TIME, size=60, seed=7, start=start, files=6)
    simulate("ride_points", landing / LATE, size=5, seed=8, start=start, files=4)
    lakehouse = Lakehouse(folder / "unbroken")
    process(spark, lakehouse, landing)
    rows = rows_of(lakehouse)
    there = {table for table, _ in rows}
    assert there >= {"events.ride_points", "quarantine.ride_points", "ride_summaries", "late.ride_summaries"}
    return Unbroken(landing, rows)


def rows_of(lakehouse: Lakehouse) -> Rows:
    """How often each row is in a table, and the counts that the runs kept."""
    found: Rows = Counter()
    for name, path in lakehouse.tables().items():
        # Where a rejected row was found says all; in which batch it was, and when an event was admitted, is the run's own
        # affair.
        table = pl.read_delta(str(path)).drop("batch", INGESTED_AT, strict=False)
        found.update((name, repr(row)) for row in table.rows())
    done = Lake(lakehouse).done("ride_summaries")
    found["counts of the job", repr(asdict(done.totals))] += 1
    found["counts of ingest", repr(asdict(ingest_totals(lakehouse, RIDE_POINTS)))] += 1
    return found


def run(home: Path, landing: Path, happens: Callable[[Child], object], **environment: str) -> int:
    """Work in a process of its own that something happens to once its Spark is up; its exit code. None of it is left."""
    started = home.with_suffix(".started")
    started.unlink(missing_ok=True)
    command = [sys.executable, "-m", "tests.chaos.crash_child", home, landing, started]
    with open(home.with_suffix(".log"), "ab") as log:
        child = subprocess.Popen(
            command,
            cwd=REPOSITORY,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "KEYFOLD_SPARK_MASTER": "local[2]", **environment},
        )
    try:
        while not started.exists() and child.poll() is None:
            time.sleep(0.05)
        happens(child)
        code = child.wait(PATIENCE)
    finally:
        kill(child)
    return code


def kill(child: Child) -> None:
    """SIGKILL to a process and all that it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def kill_after(seconds: float) -> Callable[[Child], None]:
    """Kills a run that has not ended after so long."""

    def happens(child: Child) -> None:
        try:
            child.wait(seconds)
        except subprocess.TimeoutExpired:
            kill(child)

    return happens


def log_of(home: Path) -> str:
    """The end of what the runs on a home have said."""
    return home.with_suffix(".log").read_text()[-4000:]
