"""What the demo says of what a run made, and of a folder without files."""

import dagster as dg
import pytest

from dagster_project.demo.report import _without_any_event
from dagster_project.demo.run import main
from keyfold.dagster.translator import DEFAULT


def made(*, accepted: int, duplicates: int = 0, rows: int = 0) -> dict[dg.AssetKey, dict[str, int]]:
    counts = {"rows_read": 46, "accepted": accepted, "duplicates": duplicates, "quarantined": 0}
    return {DEFAULT.get_asset_key("events.ride_points"): counts | {"dagster/row_count": rows}}


def test_a_run_that_accepted_nothing_of_a_stream_without_events_has_failed():
    assert _without_any_event(made(accepted=0)) == {"ride_points": "none of the 46 rows read was accepted"}


def test_files_that_were_read_before_are_no_failure():
    for told in (made(accepted=46, rows=46), made(accepted=0, duplicates=46, rows=46), made(accepted=0, rows=46)):
        assert _without_any_event(told) == {}


@pytest.mark.parametrize(("make", "message"), [(False, "is not a folder"), (True, "has no files")])
def test_the_demo_refuses_a_folder_of_ones_own_without_files(tmp_path, monkeypatch, capsys, make, message):
    # Would last for all that this process does later.
    monkeypatch.setattr("dagster_project.demo.run.keep_files_private", lambda: None)
    monkeypatch.setenv("KEYFOLD_HOME", str(tmp_path / "home"))
    if make:
        (tmp_path / "mine").mkdir()
    assert main(["--from", str(tmp_path / "mine")]) == 1
    assert message in capsys.readouterr().err
