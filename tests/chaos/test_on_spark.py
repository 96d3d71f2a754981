"""Faults of runs with Spark: each of their processes killed or told to stop, at any moment and at named ones.

Each driver starts a Spark of its own. `KILLS=200 python -m pytest -s -m chaos tests/chaos/test_on_spark.py -k readers` sets how
many come to runs and state moves while readers read.
"""

import errno
import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from keyfold.lakehouse import fail_points
from keyfold.session import SparkSettings
from keyfold.session.spark_settings import spark_conf
from tests.chaos.conftest import TRIES
from tests.chaos.launcher import Launcher, Run
from tests.chaos.readings import kill_amid_readings
from tests.chaos.scenes import SCENE_OF, SCENES
from tests.chaos.small_disks import fill, is_said, mounted
from tests.chaos.story import Homes
from tests.standalone_cluster import standalone_cluster
from tests.waiting import lives

PROMISE = "Of a run with Spark any process may be killed or told to stop: the next run ends as if nothing had been."

pytestmark = pytest.mark.chaos

RUNS = SCENES["runs"]
LONGEST_LIFE_IN_SECONDS = 12.0
KILLS = int(os.environ.get("KILLS", str(10 * TRIES)))
DRIVERS_A_JAVA = 10
ON_THE_WAY = [
    point for point in fail_points.POINTS if point.startswith(("plan", "work", "done", "commit", "generation"))
]
PROCESSES = {
    "the driver": "python",
    "Java": "java",
    "a Python worker": spark_conf(SparkSettings())["spark.python.daemon.module"],
}
"""What the command of each has in it."""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("process", PROCESSES)
def test_a_process_of_a_run_gets_a_signal(with_spark, homes, tally, process, number):
    tries = TRIES if (process, number) == ("the driver", signal.SIGKILL) else max(1, TRIES // 10)
    strike(with_spark, homes, tally(f"{process} gets a signal ({number.name})"), tries, finds(process), number)


def test_an_executor_of_a_cluster_is_killed(with_spark, homes, tally, tmp_path_factory):
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        workers = {worker.pid for worker in cluster.workers}

        def executors(_: Run) -> list[int]:
            return [pid for pid, parent, _ in processes() if parent in workers]

        told = tally("an executor of a cluster is killed")
        strike(with_spark, homes, told, max(1, TRIES // 5), executors, signal.SIGKILL, cluster.environment)


def strike(
    launcher: Launcher,
    homes: Homes,
    told,
    tries: int,
    found: Callable[[Run], list[int]],
    number: signal.Signals,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Signal the first of a run's processes that are found at a random moment of it, and mend what comes of it."""
    moments = random.Random(told.fault)
    for index in range(tries):
        home, came = RUNS.home(homes), False
        run = launcher.start(home, *RUNS.commands, environment=environment)
        until = time.monotonic() + moments.uniform(0.5, LONGEST_LIFE_IN_SECONDS)
        while lives(run.pid) and not came:
            if time.monotonic() > until and (processes := found(run)):
                with suppress(ProcessLookupError):
                    os.kill(processes[0], number)
                    came = True
            time.sleep(0.01)
        # The run fails, or goes on, or was idle then; all is well.
        run.wait()
        RUNS.mend(launcher, home)
        RUNS.count(told, home, f"try {index}", came=came)


@pytest.mark.parametrize("point", ON_THE_WAY)
def test_the_process_is_killed_at_a_named_point(with_spark, homes, tally, point):
    scene = SCENES[SCENE_OF[point.partition(":")[0]]]
    told, home = tally("the driver, or its worker, is killed at a named point"), scene.home(homes)
    code, _ = with_spark.run(home, *scene.commands, environment={fail_points.VARIABLE: f"{point}#1"})
    scene.mend(with_spark, home)
    scene.count(told, home, point, came=code != 0)


def test_the_disk_is_full(with_spark, homes, tally, tmp_path):
    told, room = tally("the disk is full under a run with Spark"), random.Random(2028)
    with mounted(tmp_path, megabytes=20) as disk:
        for index in range(max(1, TRIES // 2)):
            home = shutil.copytree(homes.running, disk / f"home-{index}", symlinks=True)
            with fill(disk, room.randrange(4, 120)):
                code, run = with_spark.run(home, *RUNS.commands)
            is_said(run, code, os.strerror(errno.ENOSPC))
            RUNS.mend(with_spark, home)
            RUNS.count(told, home, f"try {index}", came=code != 0)
            shutil.rmtree(home)


def test_readers_see_each_row_once_while_runs_on_spark_and_moves_are_killed(with_spark, homes, tally):
    def strike(run: Run, number: int) -> None:
        java = finds("Java")(run) if number % DRIVERS_A_JAVA == DRIVERS_A_JAVA - 1 else []
        with suppress(ProcessLookupError):
            os.kill(java[0] if java else run.pid, signal.SIGKILL)

    told = tally("runs on Spark and state moves killed at random while readers read")
    kill_amid_readings(with_spark, homes, told, KILLS, strike, seed=2034, pause=0.5, longest=30)


def finds(process: str) -> Callable[[Run], list[int]]:
    """Finds processes that a run has started; of workers those that Spark's Python daemon has forked."""

    def found(run: Run) -> list[int]:
        if process == "the driver":
            return [run.pid]
        there = {pid: (parent, command) for pid, parent, command in processes()}
        ours = {
            pid: parent
            for pid, (parent, command) in there.items()
            if PROCESSES[process] in command and descends(pid, run.pid, there)
        }
        # The daemon of Python workers is Java's child, the workers are the daemon's.
        return [pid for pid, parent in ours.items() if process == "Java" or parent in ours]

    return found


def descends(pid: int, ancestor: int, there: Mapping[int, tuple[int, str]]) -> bool:
    """Whether a process was started by another, or by one that it started. Java has a session of its own."""
    while pid in there and pid != ancestor:
        pid, _ = there[pid]
    return pid == ancestor


def processes() -> Iterator[tuple[int, int, str]]:
    """Every process of the machine: its number, its parent's, and its command."""
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            yield int(entry.name), int(parent), (entry / "cmdline").read_bytes().decode("utf-8", "replace")
