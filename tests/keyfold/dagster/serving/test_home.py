"""Dagster's home: Keyfold's dagster.yaml is put there once, and one that is there is nobody's but its user's."""

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from keyfold.dagster.serving import open_dagster_home
from keyfold.errors import KeyfoldError
from tests.ports import free_port

OURS = Path("keyfold/dagster/dagster.yaml").resolve().read_text()


def test_a_new_home_gets_keyfold_s_settings_which_only_its_user_can_read(tmp_path):
    home = tmp_path / "new" / "home"
    with open_dagster_home(home) as instance:
        assert instance.run_monitoring_enabled
    assert (home / "dagster.yaml").read_text() == OURS
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert stat.S_IMODE((home / "dagster.yaml").stat().st_mode) == 0o600


def test_settings_of_one_s_own_stay(tmp_path):
    mine = tmp_path / "dagster.yaml"
    mine.write_text("telemetry: {enabled: true}\n")
    with open_dagster_home(tmp_path) as instance:
        assert not instance.run_monitoring_enabled
    assert mine.read_text() == "telemetry: {enabled: true}\n"
    database = "{postgres_db: {username: {env: UNSET_B}, password: x, hostname: {env: UNSET_A}, db_name: x}}"
    for settings, told in (
        ("no_such_setting: 1\n", r".*; check its dagster\.yaml"),
        (f"storage: {{postgres: {database}}}\n", "UNSET_A, UNSET_B not set; check"),
    ):
        mine.write_text(settings)
        with pytest.raises(KeyfoldError, match=f"cannot be used: {told}"):
            open_dagster_home(tmp_path)


def test_on_a_disk_that_takes_nothing_more_a_line_says_so(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text(OURS)
    program = (
        "import resource, runpy; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)); "
        "runpy.run_module('keyfold.dagster.serving', run_name='__main__')"
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
    said = ended.stderr.splitlines()[-1]
    assert re.fullmatch(rf"error: DAGSTER_HOME {home} cannot be used: .+; check its dagster.yaml, and that .+", said)
