"""Dagster's home: the project's dagster.yaml is put there once, and one that is there is nobody's but its user's."""

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from keyfold.dagster.serving.home import make_databases, prepare_dagster_home
from tests.ports import free_port

OURS = Path("keyfold/dagster/dagster.yaml").resolve().read_text()


def test_a_new_home_gets_the_project_s_settings_and_nothing_is_said(tmp_path):
    home = tmp_path / "new" / "home"
    assert prepare_dagster_home(home) is None
    assert (home / "dagster.yaml").read_text() == OURS
    assert prepare_dagster_home(home) is None
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert stat.S_IMODE((home / "dagster.yaml").stat().st_mode) == 0o600
    assert [path.name for path in home.iterdir()] == ["dagster.yaml"]


def test_settings_of_one_s_own_stay_and_a_line_says_how_they_differ(tmp_path):
    mine = tmp_path / "dagster.yaml"
    mine.write_text("telemetry: {enabled: true}\n")
    told = prepare_dagster_home(tmp_path)
    assert mine.read_text() == "telemetry: {enabled: true}\n"
    assert told is not None
    assert "\n" not in told
    command = told.split("`")[1]
    differences = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)  # noqa: S602
    assert "< telemetry: {enabled: true}" in differences.stdout
    mine.unlink()
    assert prepare_dagster_home(tmp_path) is None
    assert mine.read_text() == OURS


def test_of_many_that_come_at_once_one_puts_them_there(tmp_path):
    program = (
        "import sys; from pathlib import Path; from keyfold.dagster.serving.home import *; "
        "print(prepare_dagster_home(Path(sys.argv[1])))"
    )
    all_of_them = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "home")], stdout=subprocess.PIPE, text=True)
        for _ in range(6)
    ]
    assert [one.communicate()[0] for one in all_of_them] == ["None\n"] * 6
    assert (tmp_path / "home" / "dagster.yaml").read_text() == OURS


def test_a_new_home_has_its_databases_before_servers_begin(tmp_path):
    home = tmp_path / "home"
    prepare_dagster_home(home)
    make_databases(home)
    made = {path.relative_to(home).as_posix() for path in home.rglob("*.db")}
    assert made == {"history/runs.db", "history/runs/index.db", "schedules/schedules.db"}
    before = {path: path.stat().st_mtime_ns for path in home.rglob("*.db")}
    make_databases(home)
    assert {path: path.stat().st_mtime_ns for path in home.rglob("*.db")} == before


@pytest.mark.parametrize("has_settings", [False, True])
def test_on_a_disk_that_takes_nothing_more_a_line_says_so(tmp_path, has_settings):
    home = tmp_path / "home"
    home.mkdir()
    if has_settings:
        (home / "dagster.yaml").write_text(OURS)
    program = (
        "import resource, runpy; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)); "
        "runpy.run_module('keyfold.dagster.serving.pages', run_name='__main__')"
    )
    environment = {
        **os.environ,
        "DAGSTER_HOME": str(home),
        "KEYFOLD_HOME": str(tmp_path / "lake"),
        "PORT": str(free_port()),
        # Of a compiled module Python would write 100 bytes too, and every later process would fail to read it.
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    ended = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert ended.returncode == 1, ended.stderr
    assert "Traceback" not in ended.stderr
    # Of a home without settings Dagster says that it takes its own.
    said = ended.stderr.splitlines()[-1]
    assert re.fullmatch(rf"error: DAGSTER_HOME {home} cannot be used: .+; check that its disk has free .+", said)
