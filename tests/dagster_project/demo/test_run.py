"""The demo, as `make demo` runs it: in a process of its own, on a home and an instance of its own."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from spark_jobs.jobs.registry import JOBS
from tests.project_copy import ROOT, copy_project, environment_of

SUCCESS = dg.DagsterRunStatus.SUCCESS

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


@pytest.fixture(scope="module")
def local(tmp_path_factory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The home of a demo without Spark, which tests read or copy, and what the demo printed."""
    home = tmp_path_factory.mktemp("demo") / "home"
    home.mkdir()
    return home, demo(home, "local")


@pytest.mark.parametrize("runner", ["local", pytest.param("spark", marks=pytest.mark.slow)])
def test_the_demo_makes_the_tables(tmp_path, request, runner):
    home, done = request.getfixturevalue("local") if runner == "local" else (tmp_path, demo(tmp_path, runner))
    assert_it_made_the_tables(home, done)


def assert_it_made_the_tables(home: Path, done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stderr
    assert re.search(r"\d{3} passed, 1 failed, [0-3] warned", done.stdout)
    assert re.findall(r"\w+(?=\.few_rows_are_quarantined)", done.stdout) == ["sales_events"]
    assert "make ui" in done.stdout
    assert re.search(
        r"One late delivery: 100 events, ingested in .* s; ride_summaries in .* s, 100 of them late", done.stdout
    )
    assert "(local: 0.0 MiB are planned, less than 32 MiB)" in done.stdout
    # About a screen: a line a stream and a job.
    assert len(done.stdout.splitlines()) < 48
    assert open_to_others(home) == []
    assert all(rows(done.stdout, job)[0] > 0 for job in JOBS)
    with dg.DagsterInstance.from_config(str(home / "dagster")) as instance:
        # The second one computes a day again, as a backfill does.
        assert [(run.job_name, run.status) for run in instance.get_runs()] == 2 * [("everything", SUCCESS)]
        # A delivery for each of four days, so that what Dagster draws has a course.
        for asset in ("ride_points_landing", "ride_points_events", "ride_summaries", "fleet_days"):
            reports = instance.fetch_materializations(dg.AssetKey(asset), limit=9).records
            assert len(reports) == 4, asset
        assert {pool.limit for pool in instance.event_log_storage.get_pool_limits()} == {1}


PAGE = ROOT / "docs" / "tutorial" / "first-ten-minutes.md"
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_each_step_of_the_first_ten_minutes_does_what_the_page_says_and_spoils_none_of_the_next(local, tmp_path):
    project = copy_project(tmp_path / "keyfold")
    shutil.copytree(local[0], project / ".keyfold")
    environment = environment_of(project, COLUMNS="300", KEYFOLD_RUNNER="local")
    printed, steps = "", list[str]()
    for kind, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if text in ("make demo\n", "make ui\n"):
            continue  # the demo was made, and what it serves has tests of its own
        if kind == "sh":
            script = text.replace("source .venv/bin/activate\n", "")
            done = subprocess.run(
                ["bash", "-ec", script],
                cwd=project,
                env=environment,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            printed = done.stdout
            steps.append(printed)
        else:
            lines = iter(printed.splitlines())
            for wanted in text.splitlines():
                pattern = ".*".join(re.escape(part) for part in wanted.split("…"))
                assert any(re.fullmatch(pattern, line.rstrip()) for line in lines), f"no line {wanted!r} in:\n{printed}"
    # New rides are closed, and not one of their points is late.
    (closed, late) = re.findall(r"(\d+) ride_summaries,.* (\d+) late.ride_summaries", steps[-2])[0]
    assert int(closed) > 50
    assert int(late) == 0
