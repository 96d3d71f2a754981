"""`make chaos`: many faults of each kind, each on a lakehouse of its own; nothing may be lost, nothing be there twice.

What each kind came to is told at the end, a line a fault. Short forms, in `make test`: `test_crash.py` (random kills),
`keyed/test_crash_points.py` (every named point, a full disk), `ingest/test_batch.py`.
"""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_jobs.jobs.parameters import build_job
from spark_jobs.jobs.registry import JOBS
from spark_jobs.keyed.conservation import check_conservation
from spark_jobs.lakehouse import Lakehouse, fail_points
from tests.spark_jobs.broken_runs import PATIENCE, Child, Unbroken, kill_after, log_of, rows_of, run, unbroken_run
from tests.spark_jobs.crash_child import PARAMETERS

pytestmark = pytest.mark.chaos

TRIES = int(os.environ.get("TRIES", "10"))
LONGEST_LIFE_IN_SECONDS = 8.0
ON_THE_WAY = [
    point for point in fail_points.POINTS if point.startswith(("plan", "work", "done", "commit", "generation"))
]


@pytest.fixture(scope="module")
def unbroken(spark, tmp_path_factory) -> Unbroken:
    return unbroken_run(spark, tmp_path_factory.mktemp("unbroken"))


@pytest.fixture
def survives(spark, unbroken, record_property):
    """Runs once more on a home that a fault came to, and counts what is lost and doubled there."""

    def judge(fault: str, tried: int, homes: list[Path]) -> None:
        survived = lost = doubled = 0
        for home in homes:
            code = run(home, unbroken.landing, lambda child: child.wait(PATIENCE))
            assert code == 0, log_of(home)
            found = rows_of(Lakehouse(home))
            lost += (unbroken.rows - found).total()
            doubled += (found - unbroken.rows).total()
            job = build_job(JOBS["ride_summaries"], PARAMETERS)
            survived += found == unbroken.rows and check_conservation(spark, Lakehouse(home), job).balanced
        record_property("fault", (fault, tried, len(homes), survived, lost, doubled))
        assert (survived, lost, doubled) == (len(homes), 0, 0)

    return judge


def test_the_process_is_killed_at_a_random_moment(unbroken, survives, tmp_path):
    moments = random.Random(2026)
    homes = [tmp_path / f"home-{index}" for index in range(3 * TRIES)]
    came = [
        home for home in homes if run(home, unbroken.landing, kill_after(moments.uniform(0.1, LONGEST_LIFE_IN_SECONDS)))
    ]
    assert came
    survives("killed at a random moment", len(homes), came)


@pytest.mark.parametrize("point", ON_THE_WAY)
def test_the_process_is_killed_at_a_named_point(unbroken, survives, tmp_path, point):
    homes = [tmp_path / f"home-{index}" for index in range(max(1, TRIES // 3))]
    # The first time that a run comes there, the second, and so on.
    came = [
        home
        for count, home in enumerate(homes, 1)
        if run(home, unbroken.landing, lambda _: None, **{fail_points.VARIABLE: f"{point}#{count}"})
    ]
    assert came
    survives(f"killed at {point!r}", len(homes), came)


def test_a_python_worker_of_spark_is_killed(unbroken, survives, tmp_path):
    moments = random.Random(2027)
    came = []
    for index in range(TRIES):
        home, killed = tmp_path / f"home-{index}", []
        life = moments.uniform(0.5, LONGEST_LIFE_IN_SECONDS)
        # The run fails, or it was idle then; either is well.
        run(home, unbroken.landing, lambda child, life=life, killed=killed: killed.append(kill_a_worker(child, life)))
        came += [home] * any(killed)
    survives("a Python worker of Spark is killed", TRIES, came)


def test_the_disk_is_full(unbroken, survives, small_disk, tmp_path):
    room = random.Random(2028)
    for index in range(TRIES):
        home = small_disk / f"home-{index}"
        # What a run says must have a place.
        home.with_suffix(".log").symlink_to(tmp_path / f"{index}.log")
        ballast = small_disk / "ballast"
        ballast.write_bytes(b"\0" * (shutil.disk_usage(small_disk).free - room.randrange(8, 600) * 1024))
        code = run(home, unbroken.landing, lambda _: None)
        ballast.unlink()
        survives("the disk is full", 1, [home] if code else [])
        shutil.rmtree(home)


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A disk of a hundred megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=100m", "tmpfs", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("no small disk can be mounted here: it takes root")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def kill_a_worker(child: Child, seconds: float) -> bool:
    """Kill one of the Python workers that a run's Spark has forked, the first that is there after so long."""
    until = time.monotonic() + seconds
    while child.poll() is None:
        if time.monotonic() > until and (workers := workers_of(child)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(workers[0], signal.SIGKILL)
                return True
        time.sleep(0.01)
    return False


def workers_of(child: Child) -> list[int]:
    """Processes of a run's session that Spark's Python daemon has forked; the daemon itself is Java's child."""
    daemons: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            _, parent, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(session) == child.pid and b"pyspark.daemon" in (entry / "cmdline").read_bytes():
                daemons[int(entry.name)] = int(parent)
    return [process for process, parent in daemons.items() if parent in daemons]
