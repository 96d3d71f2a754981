"""The main job on a real standalone master and worker, from the command line, against the state machine in Python."""

import json
import os
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from spark_jobs.lakehouse import Lakehouse
from tests.spark_jobs.jobs import ride_oracle
from tests.standalone_cluster import standalone_cluster


@pytest.mark.long
def test_ride_summaries_run_on_a_standalone_cluster_as_they_do_locally(tmp_path):
    home = tmp_path / "home"
    with standalone_cluster(tmp_path) as master:
        keyfold(master, home, "simulate", "--to", tmp_path / "landing", "--rides", "30", "--seed", "3")
        ingested = keyfold(master, home, "ingest", "ride_points", "--from", tmp_path / "landing")
        keyfold(master, home, "run", "ride_summaries", "--param", "close=complete", "--param", "watermark_delay=30d")
        ran = keyfold(master, home, "run", "ride_summaries", "--advance-to", "2026-12-31T00:00:00+00:00")
    points = pl.read_delta(str(Lakehouse(home).table("events.ride_points"))).to_dicts()
    assert ingested["accepted"] == len(points) == ran["totals"]["events"]
    until = datetime.fromisoformat(ran["watermark"])
    answer = ride_oracle.complete(points, until, timedelta(minutes=30), timedelta(days=1))
    summaries = pl.read_delta(str(Lakehouse(home).table("ride_summaries"))).to_dicts()
    assert len(summaries) == len(answer.summaries) > 0
    for row in summaries:
        expected = answer.summaries[row["ride_id"], row["start_time"]]
        assert row.pop("distance_in_metres") == pytest.approx(expected.pop("distance_in_metres"), rel=1e-7, abs=1e-3)
        assert row == expected
    assert ran["totals"]["rows"]["late.ride_summaries"] == answer.late_points


def keyfold(master, home, *arguments):
    """Run the command outside the repository, as a user would, and read its one-line summary."""
    environment = os.environ | {
        "KEYFOLD_HOME": str(home),
        "KEYFOLD_SPARK_MASTER": master,
        "KEYFOLD_SPARK_CONF": "spark.driver.host=127.0.0.1 spark.executor.memory=1g",
    }
    command = [Path(sys.executable).with_name("keyfold"), *map(str, arguments), "--json"]
    done = subprocess.run(command, cwd=home.parent, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
