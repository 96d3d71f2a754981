"""The demo on a folder of ones own, as `make demo FROM=…` runs it."""

import re

import pytest

from dagster_project.demo.run import main
from spark_jobs.simulation import simulate
from tests.dagster_project.demo.process import demo


# `make test` runs the demo on files that it has simulated (`test_run.py`), and refuses folders below.
@pytest.mark.long
@pytest.mark.slow
def test_the_demo_takes_a_folder_of_ones_own(tmp_path):
    made = simulate("ride_points", tmp_path / "mine", size=20, files=4)
    told = demo(tmp_path / "home", "--from", str(tmp_path / "mine"))
    assert told.returncode == 0, told.stderr
    accepted = re.search(r"^ride_points +[\d,]+ +([\d,]+)", told.stdout, re.MULTILINE)
    assert accepted is not None, told.stdout
    assert int(accepted[1].replace(",", "")) == made.events
    assert not (tmp_path / "home" / "landing").exists()


@pytest.mark.parametrize(("make", "message"), [(False, "is not a folder"), (True, "has no files")])
def test_the_demo_refuses_a_folder_without_files(tmp_path, monkeypatch, capsys, make, message):
    # Would last for all that this process does later.
    monkeypatch.setattr("dagster_project.demo.run.keep_files_private", lambda: None)
    monkeypatch.setenv("KEYFOLD_HOME", str(tmp_path / "home"))
    if make:
        (tmp_path / "mine").mkdir()
    assert main(["--from", str(tmp_path / "mine")]) == 1
    assert message in capsys.readouterr().err
