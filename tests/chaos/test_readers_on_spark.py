"""On Spark: runs and state moves killed at random, one after the other on a home, while readers read its tables.

`KILLS=200 python -m pytest -s -m chaos tests/chaos/test_readers_on_spark.py` sets how many. Drivers attach to a warm Spark, whose
Java goes on with what a killed driver has begun; it is killed too, with each twentieth.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.broken_runs import PATIENCE, REPOSITORY
from tests.chaos.conftest import TRIES
from tests.chaos.launcher import Launcher, Run, build, why_not
from tests.chaos.story import Homes
from tests.chaos.test_on_spark import processes_of
from tests.chaos.test_readers import PROMISE, kill_amid_readings

__all__ = ["PROMISE"]

KILLS = int(os.environ.get("KILLS", str(20 * TRIES)))
KILLS_OF_ONE_JAVA = 20


@pytest.mark.chaos
@pytest.mark.parametrize("first", range(0, KILLS, KILLS_OF_ONE_JAVA))
def test_readers_see_each_row_once_while_runs_on_spark_and_moves_are_killed(
    warm, warm_launcher, on_spark, tally, first
):
    kills = min(KILLS_OF_ONE_JAVA, KILLS - first)

    def strike(run: Run, number: int) -> None:
        if number == KILLS_OF_ONE_JAVA - 1:
            warm.kill_java()
            warm.start()
        else:
            run.signal(signal.SIGKILL)

    told = tally("runs on Spark and state moves killed at random while readers read")
    kill_amid_readings(warm_launcher, on_spark, told, kills, strike, seed=2034 + first, pause=0.5, longest=10)


@pytest.fixture(scope="module")
def environment(tmp_path_factory) -> dict[str, str]:
    address = tmp_path_factory.mktemp("warm") / "warm-spark.json"
    return {"KEYFOLD_WARM_SPARK": str(address), "KEYFOLD_SPARK_MASTER": "local[2]", "PYTHONPATH": str(REPOSITORY)}


@pytest.fixture(scope="module")
def warm(environment) -> Iterator["WarmSpark"]:
    warm = WarmSpark(Path(environment["KEYFOLD_WARM_SPARK"]), environment)
    warm.start()
    yield warm
    warm.end()


@pytest.fixture(scope="module")
def warm_launcher(environment, tmp_path_factory) -> Iterator[Launcher]:
    if reason := why_not():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("warm-launcher")
    launcher = Launcher(build(folder), folder, "warm_keyfold", environment)
    yield launcher
    launcher.close()


@pytest.fixture(scope="module")
def on_spark(warm, warm_launcher, tmp_path_factory) -> Homes:
    assert warm
    return Homes(warm_launcher, tmp_path_factory.mktemp("homes-on-spark"))


class WarmSpark:
    """A warm Spark in a process of its own.

    Args:
        address: the file that says where it is.
        environment: variables of it, and of its workers.
    """

    def __init__(self, address: Path, environment: dict[str, str]) -> None:
        self._address, self._environment = address, {**os.environ, **environment}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; returns when runs may attach."""
        self.end()
        command = [Path(sys.executable).with_name("keyfold"), "warm-spark", "--address", self._address]
        with self._address.with_suffix(".log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--home", self._address.parent / "home-of-the-warm"],
                cwd=REPOSITORY,
                stdout=log,
                stderr=log,
                env=self._environment,
            )
        until = time.monotonic() + PATIENCE
        while not self._address.exists():
            assert self._process.poll() is None, self._address.with_suffix(".log").read_text()
            assert time.monotonic() < until
            time.sleep(0.1)

    def kill_java(self) -> None:
        """Kill what runs work with."""
        assert self._process
        for pid in processes_of(self._process, "Java"):
            os.kill(pid, signal.SIGKILL)
        self._process.wait(PATIENCE)

    def end(self) -> None:
        """End it, if it runs."""
        if self._process and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(PATIENCE)
