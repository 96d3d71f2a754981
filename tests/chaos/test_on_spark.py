"""Faults of runs with Spark: each of their processes killed or told to stop, at any moment and at named ones."""

import contextlib
import os
import random
import shutil
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from keyfold.keyed.job.building import build_job
from keyfold.keyed.reporting.conservation import check_conservation
from keyfold.lakehouse import Lakehouse, fail_points
from keyfold.session import SparkSettings
from keyfold.session.settings import spark_conf
from spark_jobs.jobs.registry import JOBS
from tests.chaos.broken_runs import PATIENCE, Child, Unbroken, kill_after, log_of, rows_of, run, unbroken_run
from tests.chaos.conftest import TRIES
from tests.chaos.crash_child import PARAMETERS
from tests.chaos.launcher import Run
from tests.small_disk import mounted
from tests.standalone_cluster import standalone_cluster

PROMISE = "Of a run with Spark any process may be killed or told to stop: the next run ends as if nothing had been."

LONGEST_LIFE_IN_SECONDS = 8.0
# Ride summaries are appended: merges are killed in `test_kills.py`.
ON_THE_WAY = [
    point for point in fail_points.POINTS if point.startswith(("plan", "work", "done", "commit", "generation"))
]


@pytest.fixture(scope="module")
def unbroken(spark, tmp_path_factory) -> Unbroken:
    return unbroken_run(spark, tmp_path_factory.mktemp("unbroken"))


@pytest.fixture
def count(spark, unbroken):
    """Runs once more on a home that a fault came to, and counts what is lost and doubled there."""

    def count(told, home: Path, what: str, *, came: bool) -> None:
        code = run(home, unbroken.landing, lambda child: child.wait(PATIENCE))
        assert code == 0, log_of(home)
        told.count(unbroken.rows, rows_of(Lakehouse(home)), what, came=came)
        assert check_conservation(Lakehouse(home), build_job(JOBS["ride_summaries"], PARAMETERS)).balanced
        shutil.rmtree(home)

    return count


@pytest.mark.chaos
@pytest.mark.parametrize("tries", [TRIES])
def test_the_process_is_killed_at_a_random_moment(unbroken, count, tally, tmp_path, tries):
    told, moments = tally("the driver is killed at a random moment"), random.Random(2026 + tries)
    for index in range(tries):
        home, code = tmp_path / f"home-{index}", 0
        for _ in range(1 + index % 2):  # once, or twice on one home
            code = run(home, unbroken.landing, kill_after(moments.uniform(0.1, LONGEST_LIFE_IN_SECONDS))) or code
        count(told, home, f"try {index}", came=code != 0)


@pytest.mark.chaos
@pytest.mark.parametrize("point", ON_THE_WAY)
def test_the_process_is_killed_at_a_named_point(unbroken, count, tally, tmp_path, point):
    told, home = tally("the driver, or its worker, is killed at a named point"), tmp_path / "home"
    # The first time that a run comes there, or the second, by chance.
    code = run(home, unbroken.landing, lambda _: None, **{fail_points.VARIABLE: f"{point}#1"})
    count(told, home, point, came=code != 0)


PROCESSES = {
    "the driver": "python",
    "Java": "java",
    "a Python worker": spark_conf(SparkSettings())["spark.python.daemon.module"],
}
"""What the command of each has in it."""


@pytest.mark.chaos
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("process", PROCESSES)
def test_a_process_of_a_run_gets_a_signal(unbroken, count, tally, tmp_path, process, number):
    told, moments = tally(f"{process} gets a signal ({number.name})"), random.Random(process + number.name)
    for index in range(max(1, TRIES // 10)):
        home, sent = tmp_path / f"home-{index}", []
        life = moments.uniform(0.5, LONGEST_LIFE_IN_SECONDS)
        # The run fails, or goes on, or was idle then; all is well.
        run(
            home,
            unbroken.landing,
            lambda child, life=life, sent=sent: sent.append(signal_to(child, process, number, life)),
        )
        count(told, home, f"try {index}", came=any(sent))


@pytest.mark.chaos
def test_an_executor_of_a_cluster_is_killed(unbroken, count, tally, tmp_path, tmp_path_factory):
    told, moments = tally("an executor of a cluster is killed"), random.Random(2030)
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        workers = {worker.pid for worker in cluster.workers}
        for index in range(max(1, TRIES // 5)):
            home, killed = tmp_path / f"home-{index}", []
            life = moments.uniform(2, LONGEST_LIFE_IN_SECONDS)
            run(
                home,
                unbroken.landing,
                lambda child, life=life, killed=killed: killed.append(kill_an_executor(child, workers, life)),
                **cluster.environment,
            )
            count(told, home, f"try {index}", came=any(killed))


@pytest.mark.chaos
def test_the_disk_is_full(unbroken, count, tally, small_disk, tmp_path):
    told, room = tally("the disk is full under a run with Spark"), random.Random(2028)
    for index in range(max(1, TRIES // 2)):
        home = small_disk / f"home-{index}"
        # What a run says must have a place.
        home.with_suffix(".log").symlink_to(tmp_path / f"{index}.log")
        ballast = small_disk / "ballast"
        ballast.write_bytes(b"\0" * (shutil.disk_usage(small_disk).free - room.randrange(8, 600) * 1024))
        code = run(home, unbroken.landing, lambda _: None)
        ballast.unlink()
        count(told, home, f"try {index}", came=code != 0)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path, megabytes=100) as disk:
        yield disk


def signal_to(child: Child, process: str, number: signal.Signals, seconds: float) -> bool:
    """Send a signal to a process of a run, the first of its kind that is there after so long; whether there was one."""
    until = time.monotonic() + seconds
    while child.poll() is None:
        if time.monotonic() > until and (found := processes_of(child, process)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(found[0], number)
                return True
        time.sleep(0.01)
    return False


def processes_of(child: Child | Run, process: str) -> list[int]:
    """Processes that a run has started; of workers those that Spark's Python daemon has forked."""
    if process == "the driver":
        return [child.pid]
    there = {pid: (parent, command) for pid, parent, command in processes()}
    found = {
        pid: parent
        for pid, (parent, command) in there.items()
        if PROCESSES[process] in command and descends(pid, child.pid, there)
    }
    # The daemon of Python workers is Java's child, the workers are the daemon's.
    return [pid for pid, parent in found.items() if process == "Java" or parent in found]


def descends(pid: int, ancestor: int, there: Mapping[int, tuple[int, str]]) -> bool:
    """Whether a process was started by another, or by one that it started. Java has a session of its own."""
    while pid in there and pid != ancestor:
        pid, _ = there[pid]
    return pid == ancestor


def kill_an_executor(child: Child, workers: set[int], seconds: float) -> bool:
    """Kill an executor that one of a cluster's workers has started, once it is there for so long."""
    until = time.monotonic() + seconds
    while child.poll() is None:
        executors = [pid for pid, parent, _ in processes() if parent in workers]
        if time.monotonic() > until and executors:
            with contextlib.suppress(ProcessLookupError):
                os.kill(executors[0], signal.SIGKILL)
                return True
        time.sleep(0.05)
    return False


def processes() -> Iterator[tuple[int, int, str]]:
    """Every process of the machine: its number, its parent's, and its command."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            yield int(entry.name), int(parent), (entry / "cmdline").read_bytes().decode("utf-8", "replace")
