"""One contract, two runners: the same histories in this process, on Spark, on Spark Connect, and on two by turns, give the same."""

import errno
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import keyfold
from keyfold.runners import Runners
from keyfold.runners.local_runner import LocalRunner
from tests.keyfold.keyed.toy_jobs import windows
from tests.keyfold.runners.by_turns import Twice
from tests.keyfold.runners.histories import HISTORY, JOBS, land, story

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("name", JOBS)
def test_every_runner_gives_the_same_tables_and_counts(spark, tmp_path, name):
    job = JOBS[name]()
    by_turns = Twice(spark.for_bytes(0), LocalRunner())
    found = [
        story(session, keyfold.Lakehouse(tmp_path / where), job)
        for session, where in [*sessions(spark), (by_turns, "by_turns")]
    ]
    assert found[0] == found[1] == found[2]


def test_a_task_may_use_the_cores_of_its_worker(spark, monkeypatch):
    local, on_spark = LocalRunner(), spark.for_bytes(0)
    assert local.cores_per_worker == local.parallelism
    assert on_spark.cores_per_worker == on_spark.parallelism
    # On a cluster those of an executor, which are one if nothing is said.
    monkeypatch.setattr(type(on_spark), "_is_on_this_machine", lambda _: False)
    assert on_spark.cores_per_worker == 1


def test_every_runner_raises_what_a_worker_raised(spark):
    def work(number: int) -> None:
        raise (
            OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/lake") if number else keyfold.Damaged("part 3 is gone")
        )

    for session, _ in sessions(spark):
        for number, kind, said in (
            (0, keyfold.Damaged, "part 3 is gone"),
            (1, OSError, "No space left on device: '/lake'"),
        ):
            with pytest.raises(kind, match=re.escape(said)):
                session.for_bytes(0).map(work, [number])


OVER_CONNECT = """
import sys, keyfold
from keyfold.session import SparkSettings
from tests.keyfold.runners.histories import JOBS, story
settings = SparkSettings(master=sys.argv[1], ship=("tests",))
with keyfold.Runners("spark", settings) as runners:
    assert runners.for_bytes(0).map(str, [1]) == ["1"]
# Without `with`, too, the script ends with its last line.
runners = keyfold.Runners("spark", settings)
print(repr(story(runners, keyfold.Lakehouse(sys.argv[2]), JOBS["upsert"]())))
"""


@pytest.fixture
def connect(spark):
    """The address on loopback at which the shared session's Java serves Spark Connect while a test lasts."""
    context = spark.session.sparkContext
    scala = context._jvm.java.lang.Class.forName("org.apache.spark.sql.connect.service.SparkConnectService$")
    service = scala.getField("MODULE$").get(None)
    service.start(context._jsc.sc())
    yield f"sc://127.0.0.1:{service.localPort()}"
    service.stop(*(getattr(service, f"stop$default${place}")() for place in (1, 2)))


@pytest.mark.one_machine
def test_spark_connect_gives_the_same_tables_and_counts(connect, tmp_path):
    # In a process of its own: one that has classic Spark cannot be a client of Spark Connect.
    program = [sys.executable, "-c", OVER_CONNECT, connect, tmp_path / "connected"]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    here = story(Runners("local"), keyfold.Lakehouse(tmp_path / "here"), JOBS["upsert"]())
    assert done.stdout.splitlines()[-1] == repr(here)


def test_results_of_a_map_come_in_the_order_of_its_items_from_either(spark):
    for runner in (spark.for_bytes(0), LocalRunner()):
        assert runner.map(str, list(range(20))) == [str(number) for number in range(20)]
        assert runner.map(str, []) == []
        with pytest.raises(Exception, match="division by zero"):
            runner.map(one_by, [1, 0])


def one_by(number: int) -> float:
    return 1 / number


def test_spark_and_the_local_runner_refuse_the_same_change_with_the_same_error(spark, tmp_path):
    raised = []
    for session, where in sessions(spark):
        lakehouse = keyfold.Lakehouse(tmp_path / where)
        land(lakehouse, HISTORY[0])
        keyfold.run(lakehouse, windows(), runners=session)
        with pytest.raises(keyfold.IncompatibleState) as caught:
            keyfold.run(lakehouse, windows(key_groups=2), runners=session)
        raised.append(str(caught.value).replace(str(lakehouse.home), "HOME"))
    assert raised[0] == raised[1]


def sessions(spark: Any) -> list[tuple[Any, str]]:
    return [(spark, "on_spark"), (Runners("local"), "here")]
