"""The demo, as `make demo` runs it: in a process of its own, on a home and an instance of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from spark_jobs.jobs.registry import JOBS
from spark_jobs.simulation import simulate

pytestmark = pytest.mark.long


def demo(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dagster_project.demo.run", *arguments],
        env={
            **os.environ,
            "KEYFOLD_HOME": str(home),
            "DAGSTER_HOME": str(home / "dagster"),
            "KEYFOLD_SPARK_MASTER": "local[2]",
            "COLUMNS": "100",
        },
        capture_output=True,
        text=True,
        check=False,
        umask=0o022,
    )


def open_to_others(home: Path) -> list[str]:
    """What somebody else on the machine may read, write or enter."""
    return [
        str(path.relative_to(home))
        for path in home.rglob("*")
        if path.lstat().st_mode & 0o077 and not path.is_symlink()
    ]


def rows(report: str, job: str) -> tuple[int, int]:
    """Of a job: rows in its table, and new ones."""
    found = re.search(rf"^{job} +[\d,]+ +([\d,]+) +\+([\d,]+)", report, re.MULTILINE)
    assert found is not None, report
    return int(found[1].replace(",", "")), int(found[2].replace(",", ""))


def test_the_demo_makes_the_tables_and_a_second_one_goes_on(tmp_path):
    first = demo(tmp_path)
    assert first.returncode == 0, first.stderr
    assert re.search(r"\d{3} passed, 0 failed", first.stdout)
    assert "make ui" in first.stdout
    assert len(first.stdout.splitlines()) < 40
    assert open_to_others(tmp_path) == []
    second = demo(tmp_path)
    assert second.returncode == 0, second.stderr
    for job in JOBS:
        before, _ = rows(first.stdout, job)
        after, new = rows(second.stdout, job)
        assert before > 0, job
        assert after == before + new, job
    with dg.DagsterInstance.from_config(str(tmp_path / "dagster")) as instance:
        assert [run.status for run in instance.get_runs()] == [dg.DagsterRunStatus.SUCCESS] * 2
        assert {pool.limit for pool in instance.event_log_storage.get_pool_limits()} == {1}


def test_the_demo_takes_a_folder_of_ones_own(tmp_path):
    made = simulate("ride_points", tmp_path / "mine", size=20, files=4)
    told = demo(tmp_path / "home", "--from", str(tmp_path / "mine"))
    assert told.returncode == 0, told.stderr
    accepted = re.search(r"^ride_points +[\d,]+ +([\d,]+)", told.stdout, re.MULTILINE)
    assert accepted is not None, told.stdout
    assert int(accepted[1].replace(",", "")) == made.events
    assert not (tmp_path / "home" / "landing").exists()


@pytest.mark.parametrize(("make", "message"), [(False, "is no folder"), (True, "has no files")])
def test_the_demo_refuses_a_folder_without_files(tmp_path, make, message):
    if make:
        (tmp_path / "mine").mkdir()
    told = demo(tmp_path / "home", "--from", str(tmp_path / "mine"))
    assert told.returncode == 1
    assert message in told.stderr
    assert "Traceback" not in told.stderr


def test_planted_faults_turn_checks_red_hold_assets_back_and_send_alerts():
    told = subprocess.run(
        [sys.executable, "-m", "dagster_project.demo.faults"],
        env={**os.environ, "KEYFOLD_SPARK_MASTER": "local[2]"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stdout + told.stderr
    assert told.stdout.count("as it must be") == 4
    assert "held back  event_index, ride_summaries" in told.stdout
    assert "alert      2 checks recovered" in told.stdout
