"""The demo, as `make demo` runs it: in a process of its own, on a home and an instance of its own."""

import re
from pathlib import Path

import dagster as dg
import pytest

from keyfold.keyed.parameters import build_job
from spark_jobs.jobs.registry import JOBS
from tests.dagster_project.demo.process import demo

pytestmark = pytest.mark.long


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
        # The job's own table may have one row a key: then new ones take the place of some.
        is_upserted = build_job(JOBS[job]).output_mode == "upsert"
        assert before <= after <= before + new if is_upserted else after == before + new, job
    with dg.DagsterInstance.from_config(str(tmp_path / "dagster")) as instance:
        assert [run.status for run in instance.get_runs()] == [dg.DagsterRunStatus.SUCCESS] * 2
        assert {pool.limit for pool in instance.event_log_storage.get_pool_limits()} == {1}
