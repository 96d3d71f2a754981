"""Every kind of directory entry in a landing folder under the sensor: it requests a run for what is readable, and names the rest."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from keyfold.dagster.automation.new_data import look_at_folder
from keyfold.storage.disk_path import DiskPath
from tests.entries import KINDS, make, removed_afterwards


@pytest.fixture
def landing(tmp_path: DiskPath) -> Iterator[Path]:
    (tmp_path / "outside").mkdir()
    with removed_afterwards(tmp_path / "landing") as landing:
        yield landing


@pytest.mark.parametrize("kind", KINDS)
def test_a_tick_of_the_sensor_sees_other_files_and_names_what_waits(landing: DiskPath, tmp_path: DiskPath, kind: str):
    (landing / "regular file.ndjson").touch()
    if make(kind, landing, tmp_path / "outside", "{}\n") is None:
        pytest.skip("this user cannot make it")
    decision = look_at_folder(landing, None, settle=timedelta(0))
    assert decision.reason == ""
    assert "regular file.ndjson" in decision.metadata["first_names"].value
    is_quarantined = KINDS[kind].outcome == "quarantined" or KINDS[kind].is_open_to_root
    if is_quarantined or KINDS[kind].outcome == "read":
        # The run that it requests reads it, or puts it into quarantine.
        assert decision.new > 1
    else:
        assert decision.new == 1
        assert bool(decision.warnings) == (KINDS[kind].outcome == "waits")
