"""`keyfold new project`: what it refuses, and that what it writes works away from this checkout, from the wheel."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from typer.testing import CliRunner

from keyfold.cli.app import app
from tests.project_copy import ROOT


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
    assert f"{tmp_path}/plant is there already and is no empty folder; nothing was written" in told.stderr
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


@pytest.mark.long
@pytest.mark.timeout(900)
def test_from_the_wheel_a_new_project_runs_its_demo_and_its_tests_and_takes_a_stream_and_a_job(tmp_path):
    python = install_wheel(tmp_path)
    project = tmp_path / "plant"
    keyfold = python.parent / "keyfold"
    run(tmp_path, keyfold, "new", "project", "plant")
    sample = tmp_path / "trips.ndjson"
    sample.write_text(
        "".join(
            json.dumps({"trip": f"t{row % 2}", "at": f"2026-01-01T06:0{row}:00Z", "distance": row}) + "\n"
            for row in range(6)
        )
    )
    run(project, keyfold, "new", "stream", "trips", "--from", sample)
    run(project, keyfold, "new", "job", "trip_hours", "--stream", "trips", "--key", "trip")
    assert [one["job"] for one in json.loads(run(project, keyfold, "jobs", "--json"))["jobs"]] == [
        "hourly_readings",
        "trip_hours",
    ]
    run(project, python, "-m", "dagster", "definitions", "validate", "-w", "workspace.yaml")
    assert " passed" in run(project, python, "-m", "pytest", "-q")
    told = run(project, python, "-m", "dagster_project.demo")
    assert "wrote 180 events; ingested 180, quarantined 0" in told
    assert "hourly_readings: 180 events, 25 new rows, 25 in all" in told
    assert json.loads(run(project, keyfold, "show", "hourly_readings", "--json"))["rows"] == 25


def install_wheel(folder: Path) -> Path:
    """Build the wheel of a copy and install it in an environment that has this one's libraries; returns its Python."""
    source = folder / "source"
    shutil.copytree(ROOT / "keyfold", source / "keyfold", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    offline = ["--no-deps", "--no-index"]
    run(folder, *pip, "wheel", *offline, "--no-build-isolation", "--wheel-dir", folder / "wheels", source)
    shutil.rmtree(source)
    (wheel,) = (folder / "wheels").glob("*.whl")
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    run(folder, *pip, "--python", python, "install", *offline, wheel)
    place = run(folder, python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    # A folder that a .pth file names is put on the path, and the .pth files in it, so the editable install, are not read.
    Path(place, "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    path = json.loads(
        run(folder, python, "-c", "import json, keyfold, sys; print(json.dumps([keyfold.__file__, *sys.path]))")
    )
    assert path[0].startswith(place)
    assert str(ROOT) not in path
    return python


def run(folder: Path, *command: object) -> str:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("KEYFOLD_", "DAGSTER_", "PYTHON", "PYTEST_", "VIRTUAL_ENV"))
    }
    environment = kept | {"DAGSTER_DISABLE_TELEMETRY": "yes"}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
