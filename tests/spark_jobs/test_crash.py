"""SIGKILL at random moments: the tables end up as those of an unbroken run."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from spark_jobs.ingest import ingest_totals
from spark_jobs.jobs.parameters import build_job
from spark_jobs.jobs.registry import JOBS
from spark_jobs.keyed.conservation import check_conservation
from spark_jobs.keyed.generations import live_generation
from spark_jobs.lakehouse import Lakehouse
from spark_jobs.simulation import simulate
from spark_jobs.streams import RIDE_POINTS
from tests.spark_jobs.crash_child import IN_TIME, LATE, PARAMETERS, process

KILLS = 10
LONGEST_LIFE_IN_SECONDS = 9.0
REPOSITORY = Path(__file__).parents[2]


@pytest.mark.long
def test_runs_killed_at_random_moments_leave_the_tables_of_an_unbroken_run(spark, tmp_path):
    landing = tmp_path / "landing"
    start = datetime(2026, 1, 1, tzinfo=UTC)
    simulate("ride_points", landing / IN_TIME, size=60, seed=7, start=start, files=6)
    simulate("ride_points", landing / LATE, size=5, seed=8, start=start, files=4)
    unbroken = Lakehouse(tmp_path / "unbroken")
    process(spark, unbroken, landing)
    expected = contents(unbroken)
    assert all(expected[table] for table in ("events.ride_points", "quarantine.ride_points", "ride_summaries"))
    assert expected["late.ride_summaries"]

    moments = random.Random(2026)
    kills, rounds = 0, 0
    while kills < KILLS:
        rounds += 1
        broken = Lakehouse(tmp_path / f"broken-{rounds}")
        while life(broken, landing, moments.uniform(0.2, LONGEST_LIFE_IN_SECONDS) if kills < KILLS else None) < 0:
            kills += 1
        assert contents(broken) == expected
        assert check_conservation(spark, broken, build_job(JOBS["ride_summaries"], PARAMETERS)).balanced
    print(f"{kills} kills in {rounds} rounds")


def life(lakehouse, landing, seconds):
    """Let a process work for so long (None: to its end), kill it with all its children, and give its exit code."""
    started = lakehouse.home.with_suffix(".started")
    started.unlink(missing_ok=True)
    command = [sys.executable, "-m", "tests.spark_jobs.crash_child", lakehouse.home, landing, started]
    with open(lakehouse.home.with_suffix(".log"), "ab") as log:
        process = subprocess.Popen(command, cwd=REPOSITORY, stdout=log, stderr=log, start_new_session=True)
    try:
        while not started.exists() and process.poll() is None:
            time.sleep(0.05)
        code = process.wait(seconds)
    except subprocess.TimeoutExpired:
        code = -signal.SIGKILL
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert code in (0, -signal.SIGKILL), Path(log.name).read_text()[-4000:]
    return code


def contents(lakehouse):
    """Every table's rows, in one order, and the counts that the runs kept."""
    found = {}
    for name, path in lakehouse.tables().items():
        table = pl.read_delta(str(path))
        # Where a rejected row was found says all; in which batch it was is the run's own affair.
        found[name] = sorted(table.drop("batch", strict=False).rows(), key=repr)
    generation = live_generation(lakehouse, "ride_summaries")
    assert generation
    done = generation.journal.last_done()
    assert done
    found["counts of the job"] = asdict(done.totals)
    found["counts of ingest"] = asdict(ingest_totals(lakehouse, RIDE_POINTS))
    return found
