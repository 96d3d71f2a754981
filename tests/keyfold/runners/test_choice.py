"""Which runner does a piece of work, and why: by its planned bytes, or as chosen; and what needs no Java."""

import json
import os
import subprocess
import sys

import pytest

import keyfold
from keyfold import Lakehouse, Misconfigured, Runners
from keyfold.runners.local_runner import LocalRunner
from tests.keyfold.keyed.toy_jobs import windows
from tests.lake import Lake


@pytest.fixture
def java(monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/usr")


@pytest.mark.parametrize(
    ("choice", "planned", "why"),
    [
        ("auto", 0, "local: 0.0 MiB are planned, less than 32 MiB"),
        ("auto", (32 << 20) - 1, "local: 32.0 MiB are planned, less than 32 MiB"),
        ("auto", 32 << 20, "spark: 32.0 MiB are planned, not less than 32 MiB"),
        ("local", 1 << 40, "local: as chosen"),
        ("spark", 0, "spark: as chosen"),
    ],
)
def test_the_planned_bytes_decide_unless_a_runner_is_chosen(java, choice, planned, why):
    assert Runners(choice).reason(planned) == why


def test_without_java_everything_runs_in_this_process_and_says_so(monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    runners = Runners("auto", local_below=0)
    assert runners.reason(1 << 30) == "local: 1,024.0 MiB are planned, but this machine has no Java for Spark"
    assert isinstance(runners.for_bytes(1 << 30), LocalRunner)


def test_a_client_of_spark_connect_needs_no_java(monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    runners = Runners.from_environment(environment={"KEYFOLD_SPARK_MASTER": "sc://one:15002"})
    assert runners.reason(1 << 30).startswith("spark: ")


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"KEYFOLD_RUNNER": "flink"}, "the runner is 'flink'; choose one of: auto, local, spark"),
        ({"KEYFOLD_LOCAL_BELOW": "32 MiB"}, "KEYFOLD_LOCAL_BELOW is '32 MiB'; give a number of bytes"),
        ({"KEYFOLD_SPARK_MASTER": "mesos"}, "'mesos' is not a Spark master"),
    ],
)
def test_a_wrong_setting_is_refused_before_anything_runs(environment, message):
    with pytest.raises(Misconfigured, match=message):
        Runners.from_environment(environment=environment)


def test_an_option_overrides_the_environment():
    runners = Runners.from_environment("local", {"KEYFOLD_RUNNER": "spark", "KEYFOLD_LOCAL_BELOW": "7"})
    assert (runners.choice, runners.local_below) == ("local", 7)


def test_a_run_says_in_summary_and_journal_which_runner_it_had(tmp_path):
    lake = Lake(tmp_path / "home")
    lake.click(("ann", 1))
    summary = keyfold.run(lake.lakehouse, windows(), runners=Runners("local"))
    assert summary.runner == lake.done("windows").runner == "local: as chosen"
    assert keyfold.run(lake.lakehouse, windows(), runners=Runners("local")).runner is None, "nothing was new"


A_COMMAND = """
import json, sys
from keyfold.cli.app import app
try:
    app(sys.argv[1:])
except SystemExit as ended:
    assert ended.code == 0, ended
print(json.dumps([name for name in ("pyspark", "py4j", "pandas") if name in sys.modules]))
"""


def test_a_small_delivery_needs_no_java_and_loads_no_spark_and_its_run_no_pandas(tmp_path):
    from spark_jobs.simulation import simulate  # noqa: PLC0415

    home = Lakehouse(tmp_path / "home")
    simulate("ride_points", tmp_path / "home" / "landing" / "ride_points", size=2, files=4)
    without = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environment = {**without, "PATH": "", "KEYFOLD_HOME": str(home.home)}

    def shown(*words):
        command = [sys.executable, "-c", A_COMMAND, *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    # Its bad lines are read one by one, by a reader that loads pandas where it is installed.
    assert set(json.loads(shown("ingest", "ride_points", "--settle", "0")[-1])) <= {"pandas"}
    *_, summary, loaded = shown("run", "ride_summaries", "--json")
    assert json.loads(summary)["runner"].startswith("local: ")
    assert json.loads(loaded) == []
