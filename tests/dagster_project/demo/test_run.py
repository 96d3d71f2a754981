"""The demo, as `make demo` runs it: in a process of its own, on a home and an instance of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from spark_jobs.jobs.registry import JOBS

pytestmark = pytest.mark.long


def demo(home: Path, runner: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "KEYFOLD_HOME": str(home),
        "DAGSTER_HOME": str(home / "dagster"),
        "KEYFOLD_RUNNER": runner,
        "KEYFOLD_SPARK_MASTER": "local[2]",
        "COLUMNS": "100",
    }
    command = [sys.executable, "-m", "dagster_project.demo.run"]
    return subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False, umask=0o022
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


@pytest.mark.parametrize("runner", ["local", pytest.param("spark", marks=pytest.mark.slow)])
def test_the_demo_makes_the_tables(tmp_path, runner):
    done = demo(tmp_path, runner)
    assert done.returncode == 0, done.stderr
    assert re.search(r"\d{3} passed, 0 failed, [1-4] warned", done.stdout)
    assert re.findall(r"\w+(?=\.few_rows_are_quarantined)", done.stdout) == ["sales_events"]
    assert "make ui" in done.stdout
    assert re.search(
        r"One late delivery: 100 events, ingested in .* s; ride_summaries in .* s, 100 of them late", done.stdout
    )
    assert "(local: 0.0 MiB are planned, less than 32 MiB)" in done.stdout
    # About a screen: a line a stream and a job.
    assert len(done.stdout.splitlines()) < 48
    assert open_to_others(tmp_path) == []
    assert all(rows(done.stdout, job)[0] > 0 for job in JOBS)
    with dg.DagsterInstance.from_config(str(tmp_path / "dagster")) as instance:
        assert [run.status for run in instance.get_runs()] == [dg.DagsterRunStatus.SUCCESS]
        assert {pool.limit for pool in instance.event_log_storage.get_pool_limits()} == {1}
