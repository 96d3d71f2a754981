"""The demo on a folder of ones own, as `make demo FROM=…` runs it."""

import pytest

from dagster_project.demo.run import main


@pytest.mark.parametrize(("make", "message"), [(False, "is not a folder"), (True, "has no files")])
def test_the_demo_refuses_a_folder_without_files(tmp_path, monkeypatch, capsys, make, message):
    # Would last for all that this process does later.
    monkeypatch.setattr("dagster_project.demo.run.keep_files_private", lambda: None)
    monkeypatch.setenv("KEYFOLD_HOME", str(tmp_path / "home"))
    if make:
        (tmp_path / "mine").mkdir()
    assert main(["--from", str(tmp_path / "mine")]) == 1
    assert message in capsys.readouterr().err
