"""On Spark: runs and state moves killed at random, one after the other on a home, while readers read its tables.

`KILLS=200 python -m pytest -s -m chaos tests/chaos/test_readers_on_spark.py` sets how many. Each driver starts a Spark of its own;
of each tenth, the Java is killed in place of the driver.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.chaos.broken_runs import REPOSITORY
from tests.chaos.conftest import TRIES
from tests.chaos.launcher import Launcher, Run, build, why_not
from tests.chaos.story import Homes
from tests.chaos.test_on_spark import processes_of
from tests.chaos.test_readers import PROMISE, kill_amid_readings

__all__ = ["PROMISE"]

KILLS = int(os.environ.get("KILLS", str(10 * TRIES)))
DRIVERS_A_JAVA = 10


@pytest.mark.chaos
def test_readers_see_each_row_once_while_runs_on_spark_and_moves_are_killed(with_spark, homes_on_spark, tally):
    def strike(run: Run, number: int) -> None:
        if number % DRIVERS_A_JAVA == DRIVERS_A_JAVA - 1 and (java := processes_of(run, "Java")):
            with suppress(ProcessLookupError):
                os.kill(java[0], signal.SIGKILL)
        else:
            run.signal(signal.SIGKILL)

    told = tally("runs on Spark and state moves killed at random while readers read")
    kill_amid_readings(with_spark, homes_on_spark, told, KILLS, strike, seed=2034, pause=0.5, longest=30)


@pytest.fixture(scope="module")
def with_spark(tmp_path_factory) -> Iterator[Launcher]:
    if reason := why_not():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("with-spark")
    environment = {"KEYFOLD_SPARK_MASTER": "local[2]", "PYTHONPATH": str(REPOSITORY)}
    launcher = Launcher(build(folder), folder, "spark_keyfold", environment)
    yield launcher
    launcher.close()


@pytest.fixture(scope="module")
def homes_on_spark(with_spark, tmp_path_factory) -> Homes:
    return Homes(with_spark, tmp_path_factory.mktemp("homes-on-spark"))
