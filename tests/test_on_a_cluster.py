"""A standalone master and two workers: jobs do there what they do on one machine, and a run's end is the end of its work."""

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from urllib.request import urlopen

import polars as pl
import pytest

from keyfold.lakehouse import Lakehouse
from tests.commands import ended_well
from tests.keyfold.session.planted_secrets import check_nothing_shows, run_with_secrets
from tests.spark_jobs.jobs import ride_oracle
from tests.standalone_cluster import SPARK_HOME, standalone_cluster
from tests.waiting import lives, wait_until

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[1]
PATIENCE = 300


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def driven(cluster, tmp_path_factory):
    """What a driver's process tells, and its folder; it stands outside the repository, as a user would."""
    folder = tmp_path_factory.mktemp("driver")
    return drive(cluster, folder), folder


def drive(cluster, folder, *more):
    # -P: else the folder of that file comes first, and tests/keyfold is found for keyfold.
    command = [sys.executable, "-P", ROOT / "tests" / "cluster_driver.py", folder, *more]
    done = ended_well(*command, folder=folder, environment=os.environ | cluster.environment)
    return json.loads(done.stdout.splitlines()[-1])


def test_both_workers_run_our_code_from_the_zip_with_the_driver_s_variables(driven, cluster):
    nodes = driven[0]["nodes"]
    assert len({work for _, work, _, _ in nodes}) == 2, "an executor on each"
    for _, work, file, passed in nodes:
        assert Path(work).is_relative_to(cluster.folder / "work")
        assert ".zip/keyfold/times.py" in file
        assert passed == "from the driver"


def test_ride_summaries_are_those_of_the_state_machine_in_plain_python(driven):
    told, folder = driven
    ran, lakehouse = told["rides"], Lakehouse(folder / "moved")
    points = pl.read_delta(str(lakehouse.table("events.ride_points"))).to_dicts()
    assert ran["accepted"] == len(points) == ran["events"]
    until = datetime.fromisoformat(ran["watermark"])
    answer = ride_oracle.complete(points, until, timedelta(minutes=30), timedelta(days=1))
    summaries = pl.read_delta(str(lakehouse.table("ride_summaries"))).to_dicts()
    assert len(summaries) == len(answer.summaries) > 0
    for row in summaries:
        expected = answer.summaries[row["ride_id"], row["start_time"]]
        assert row.pop("distance_in_metres") == pytest.approx(expected.pop("distance_in_metres"), rel=1e-7, abs=1e-3)
        assert row == expected
    assert ran["late"] == answer.late_points
    assert ran["balanced"]


def test_workers_read_the_state_of_a_home_that_was_moved(driven):
    assert driven[0]["moved"]


def test_a_folder_that_each_node_has_for_itself_is_told_with_the_node(driven):
    told, folder = driven
    assert "/proc/self/cwd/mine is not shared with Spark's workers (node " in told["not shared"]
    assert "No such file or directory" in told["not shared"]
    assert "/proc/self/cwd is not shared with Spark's workers (node " in told["not there"]
    assert told["left"] == list((folder / "mine").iterdir()) == []


@pytest.mark.cluster
def test_a_run_that_is_cancelled_and_one_that_is_killed_leave_no_work_on_the_cluster(cluster, tmp_path):
    with ExitStack() as running:
        runs = [dagster_run(running, cluster, tmp_path / name) for name in ("cancelled", "killed")]
        tasks = [task_of(run, tmp_path / name) for run, name in zip(runs, ("cancelled", "killed"), strict=True)]
        assert len(applications(cluster)) == 2
        assert all(map(lives, tasks))
        # What Dagster does to a run that is cancelled, and what the kernel does to one that has taken all memory.
        runs[0].send_signal(signal.SIGINT)
        runs[1].kill()
        wait_until(lambda: not applications(cluster), "the master still has an application")
        wait_until(lambda: not any(map(lives, tasks)), "a task's process still works")
        assert runs[0].wait(timeout=PATIENCE) != 0


@pytest.mark.cluster
def test_a_command_under_spark_submit_does_what_it_does_by_itself(driven, cluster):
    told, folder = driven
    program, properties = folder / "run_keyfold.py", folder / "spark.properties"
    program.write_text("from keyfold.cli.app import app\n\napp()\n")
    properties.touch(mode=0o600)
    properties.write_text("".join(f"{name} {value}\n" for name, value in cluster.conf.items()))
    command = [
        SPARK_HOME / "bin" / "spark-submit",
        "--master",
        cluster.master,
        "--properties-file",
        properties,
        program,
    ]
    command += ["run", "ride_summaries", "--full-refresh", "--json", "--home", str(folder / "moved")]
    # A refresh names what the live generation has of its own.
    command += ["--param", "close=complete", "--param", "delay=30d"]
    environment = os.environ | cluster.environment | {"PYSPARK_DRIVER_PYTHON": sys.executable}
    done = ended_well(*command, folder=folder, environment=environment)
    ran = json.loads(done.stdout.splitlines()[-1])
    assert ran["generation"] == "generation-0002"
    assert ran["events"] == told["rides"]["events"]


@pytest.mark.cluster
def test_no_command_line_of_driver_daemon_or_executor_has_a_secret(cluster, tmp_path):
    # The cluster's own secret is among what is looked for: its text begins with the planted word.
    check_nothing_shows(*run_with_secrets(tmp_path, cluster.master, **cluster.conf))


def dagster_run(running, cluster, folder):
    """A run in a process of its own, with half of the cluster's cores; it ends when `running` does."""
    folder.mkdir()
    (folder / "dagster").mkdir()
    environment = os.environ | cluster.environment
    environment["KEYFOLD_SPARK_CONF"] += " spark.cores.max=1"
    environment |= {"DAGSTER_HOME": str(folder / "dagster"), "TOLD": str(folder), "PYTHONPATH": str(ROOT)}
    command = ["-m", "dagster", "job", "execute", "-m", "tests.keyfold.dagster.cancelled_on_cluster", "-j", "cancelled"]
    with (folder / "log").open("wb") as log:
        run = subprocess.Popen([sys.executable, *command], cwd=ROOT, env=environment, stdout=log, stderr=log)
    running.callback(run.wait)
    running.callback(run.kill)
    return run


def task_of(run, folder):
    """The process on a worker that has taken a run's task."""

    def told():
        assert run.poll() is None, (folder / "log").read_text()
        return [int(file.name) for file in folder.iterdir() if file.name.isdigit()]

    return wait_until(told, "no task has begun")[0]


def applications(cluster):
    with urlopen(f"{cluster.pages}/json/") as answer:  # noqa: S310 - our own
        return json.load(answer)["activeapps"]
