"""Two instances of Dagster, each with a home of its own, on one lakehouse."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from keyfold.lakehouse import Lakehouse
from spark_jobs.simulation import simulate

ROOT = Path(__file__).parents[2]


# `make test` has commands at once on one lakehouse (tests/chaos/test_at_once.py), and one caller of a job at a time
# (tests/keyfold/keyed/test_one_caller.py); this one adds that the locks lie in the lakehouse, and not in a DAGSTER_HOME.
@pytest.mark.long
@pytest.mark.slow
def test_runs_of_one_job_from_two_instances_exclude_each_other_and_double_nothing(tmp_path):
    lakehouse = Lakehouse(tmp_path / "home")
    landing = tmp_path / "home" / "landing" / "ride_points"
    landing.mkdir(parents=True)
    simulate("ride_points", landing, size=40, seed=7)
    environment = os.environ | {"KEYFOLD_HOME": str(lakehouse.home)}
    keyfold = Path(sys.executable).parent / "keyfold"
    subprocess.run(
        [keyfold, "ingest", "ride_points", "--settle", "0"], env=environment, check=True, capture_output=True
    )
    alone = tmp_path / "alone"
    shutil.copytree(str(lakehouse.home), alone)
    running = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        command = [sys.executable, "-m", "dagster", "asset", "materialize", "-m", "dagster_project.definitions"]
        running.append(
            subprocess.Popen(
                [*command, "--select", "ride_summaries,long_rides,ride_summaries_late"],
                env=environment | {"DAGSTER_HOME": str(tmp_path / name)},
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    told = [(run.communicate(timeout=600)[0], run.returncode) for run in running]
    # Who comes second is refused, or finds nothing new; which of the two it is no one promises.
    assert 0 in [code for _, code in told], told[0][0][-3000:]
    for text, code in told:
        assert code == 0 or "job ride_summaries is already running on" in text, text[-3000:]
    for home in (lakehouse.home, alone):
        environment["KEYFOLD_HOME"] = str(home)
        subprocess.run([keyfold, "run", "ride_summaries"], env=environment, check=True, capture_output=True)
    # As if one run alone had ever been.
    found, expected = (pl.read_delta(str(Lakehouse(home).table("ride_summaries"))) for home in (lakehouse.home, alone))
    assert expected.height
    assert_frame_equal(found, expected, check_row_order=False)
