"""One contract, two runners: the same histories in this process, on Spark, on Spark Connect, and on two by turns, give the same."""

import errno
import os
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from deltalake import write_deltalake

import keyfold
from keyfold.keyed.generation.run_mode import FullRefresh, Incremental, Replay
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job_run import RunOptions
from keyfold.lakehouse.reading import scan_table
from keyfold.runners import Runners
from keyfold.runners.local_runner import LocalRunner
from tests.keyfold.keyed.toy_jobs import sum_clicks, totals, windows
from tests.keyfold.runners.by_turns import Twice
from tests.shop import START, clicks

ROOT = Path(__file__).resolve().parents[3]

HISTORY = [
    [("ann", 1), ("bob", 2), ("ann", 12)],
    [("bob", 3), ("cat", 25), ("ann", 26), ("ann", 26)],
    [("dan", 61), ("bob", 1)],
]
"""Clicks of each run. Some come late, some twice, and keys come and go."""

JOBS: dict[str, Callable[[], KeyedJob]] = {
    "append, with a combiner": lambda: windows(combine=sum_clicks, event_count=pl.col("clicks").sum()),
    "upsert": totals,
}
FILE_BY_FILE = RunOptions(max_bytes_per_batch=1)


@pytest.mark.parametrize("name", JOBS)
def test_every_runner_gives_the_same_tables_and_counts(spark, tmp_path, name):
    job = JOBS[name]()
    by_turns = Twice(spark.for_bytes(0), LocalRunner())
    found = [
        story(session, keyfold.Lakehouse(tmp_path / where), job)
        for session, where in [*sessions(spark), (by_turns, "by_turns")]
    ]
    assert found[0] == found[1] == found[2]


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
from tests.keyfold.runners.test_contract import JOBS, story
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


def story(spark: Any, lakehouse: keyfold.Lakehouse, job: KeyedJob) -> list[Any]:
    """What each run of a history reports, and the tables after it."""
    reported: list[Any] = []
    for batch in HISTORY:
        land(lakehouse, batch)
        reported += after(keyfold.run(lakehouse, job, options=FILE_BY_FILE, runners=spark), lakehouse, job)
    closed = START + timedelta(hours=3)
    for mode in (
        Incremental(advance_to=closed),
        Replay("again", until=START + timedelta(minutes=30)),
        FullRefresh(closed),
    ):
        reported += after(keyfold.run(lakehouse, job, mode, runners=spark), lakehouse, job)
    return [*reported, keyfold.assert_nothing_lost(lakehouse, job)]


def after(done: Any, lakehouse: keyfold.Lakehouse, job: KeyedJob) -> list[Any]:
    rows = {
        name: sorted(scan_table(path).collect().rows(), key=repr)
        for name, path in lakehouse.tables().items()
        if name.partition("@")[0].removeprefix("late.") == job.name
    }
    return [done.counts, done.totals, done.watermark, len(done.batch_seconds), done.generation, rows]


def land(lakehouse: keyfold.Lakehouse, rows: list[tuple[str, int]]) -> None:
    """In two files, of which each makes a batch."""
    lakehouse.events("clicks").parent.mkdir(parents=True, exist_ok=True)
    for part in (rows[:1], rows[1:]):
        write_deltalake(str(lakehouse.events("clicks")), clicks(*part), mode="append")
