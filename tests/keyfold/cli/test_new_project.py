"""`keyfold new project`: what it refuses, and the shape of what it writes; tests/test_wheel.py works with it, from the wheel."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from keyfold.cli.app import app


def new_project(*arguments: object):
    return CliRunner().invoke(app, ["new", "project", *map(str, arguments)])


@pytest.mark.parametrize("name", ["My-Plant", "2plants", "class", "plant__two"])
def test_a_name_that_no_package_can_have_is_bad_usage(tmp_path, name):
    told = new_project(tmp_path / name)
    assert told.exit_code == 2
    assert f"'{name}' cannot name a project" in " ".join(told.stderr.replace("│", "").split())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("there", ["plant", "plant/notes.txt"])
def test_a_folder_that_holds_something_is_refused_and_left_as_it_is(tmp_path, there):
    file = tmp_path / there
    file.parent.mkdir(exist_ok=True)
    file.write_text("mine")
    told = new_project(tmp_path / "plant")
    assert told.exit_code == 1
    assert f"{tmp_path}/plant exists and is not an empty folder; nothing was written" in told.stderr
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [file]


def test_a_dry_run_writes_nothing(tmp_path):
    told = new_project(tmp_path / "plant", "--dry-run")
    assert told.exit_code == 0
    assert "--- spark_jobs/jobs/hourly_readings.py" in told.stdout
    assert not list(tmp_path.iterdir())


def test_what_is_written_has_the_shape_of_this_project_and_ruff_finds_nothing_in_it(tmp_path):
    project = tmp_path / "plant"
    project.mkdir()
    told = json.loads(new_project(project, "--json").stdout)
    written = {str(path.relative_to(project)) for path in project.rglob("*") if path.is_file()}
    assert set(told["files"]) == written
    folders = {path.split("/")[0] for path in written if "/" in path}
    assert folders == {"assets", "expectations", "spark_jobs", "dagster_project", "tests"}
    assert {"pyproject.toml", "requirements.txt", "workspace.yaml", "Makefile", "README.md", ".gitignore"} <= written
    assert "{{" not in "".join((project / name).read_text() for name in written if not name.endswith(".py"))
    ruff = [sys.executable, "-m", "ruff"]
    for command in ([*ruff, "check", "--no-cache", "."], [*ruff, "format", "--no-cache", "--check", "."]):
        done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
