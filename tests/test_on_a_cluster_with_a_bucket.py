"""A master and two workers, and a home in a bucket: what Dagster runs there gives the right rows, cancelled before or not."""

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.files import files_below
from keyfold.lakehouse.reading import scan_table
from keyfold.storage.object_path import ObjectPath
from spark_jobs.simulation import simulate
from tests.commands import ended_well
from tests.spark_jobs.jobs import ride_oracle
from tests.standalone_cluster import standalone_cluster
from tests.test_on_a_cluster import PATIENCE, applications
from tests.waiting import wait_until

ROOT = Path(__file__).parents[1]
CONFIG = {"close": "complete", "watermark_delay": "30d", "advance_to": "2026-12-31T00:00:00Z"}


@pytest.mark.long
@pytest.mark.cluster
def test_a_run_is_cancelled_and_the_next_one_tells_all_rides_of_the_bucket(tmp_path, bucket):
    home = ObjectPath(f"s3a://{bucket}/home")
    simulate("ride_points", tmp_path / "files", size=30, seed=3, files=6)
    for file in sorted((tmp_path / "files").iterdir()):
        (home / "landing" / "ride_points" / file.name).write_bytes(file.read_bytes())
    with standalone_cluster(tmp_path) as cluster:
        environment = environment_of(cluster, home, tmp_path)
        accepted = ingested(environment, tmp_path)
        cancelled = begun(environment, tmp_path)
        wait_until(lambda: planned(home) or cancelled.poll() is not None, "no batch was planned")
        cancelled.send_signal(signal.SIGINT)
        assert cancelled.wait(timeout=PATIENCE) != 0, (tmp_path / "log").read_text()
        wait_until(lambda: not applications(cluster), "the master still has an application")
        again = begun(environment, tmp_path)
        assert again.wait(timeout=2 * PATIENCE) == 0, (tmp_path / "log").read_text()
        assert not applications(cluster)
    points = rows(home, "events.ride_points")
    assert accepted == len(points) > 0
    answer = ride_oracle.complete(points, datetime(2026, 12, 31, tzinfo=UTC), timedelta(minutes=30), timedelta(days=1))
    summaries = rows(home, "ride_summaries")
    assert len(summaries) == len(answer.summaries) > 0
    for row in summaries:
        expected = answer.summaries[row["ride_id"], row["start_time"]]
        assert row.pop("distance_in_metres") == pytest.approx(expected.pop("distance_in_metres"), rel=1e-7, abs=1e-3)
        assert row == expected


def environment_of(cluster, home, folder):
    (folder / "dagster").mkdir()
    own = {
        "KEYFOLD_HOME": str(home),
        "DAGSTER_HOME": str(folder / "dagster"),
    }
    return os.environ | cluster.environment | own


def ingested(environment, folder):
    keyfold = Path(sys.executable).with_name("keyfold")
    done = ended_well(
        keyfold, "ingest", "ride_points", "--settle", "0", "--json", folder=folder, environment=environment
    )
    return json.loads(done.stdout.splitlines()[-1])["accepted"]


def begun(environment, folder):
    """A run of Dagster, with the checks of its tables."""
    config = folder / "config.yaml"
    config.write_text(json.dumps({"ops": {"ride_summaries": {"config": CONFIG}}}))
    command = [sys.executable, "-m", "dagster", "job", "execute", "-m", "dagster_project.definitions"]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [*command, "-j", "tick_ride_summaries", "-c", config], cwd=ROOT, env=environment, stdout=log, stderr=log
        )


def planned(home):
    return any(found.path.name.endswith(".plan.json") for found in files_below(home / "jobs"))


def rows(home, table):
    return scan_table(Lakehouse(home).table(table)).collect().to_dicts()
