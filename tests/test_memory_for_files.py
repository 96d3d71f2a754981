"""Where temporary files of the tests go."""

import os
import tempfile
from types import SimpleNamespace

import pytest

from tests.memory_for_files import has_room, use_memory


@pytest.fixture(autouse=True)
def nothing_chosen(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", tempfile.tempdir)
    # Set before it is deleted, so that it comes back as it was, whoever changes it meanwhile.
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    del os.environ["TMPDIR"]


def test_a_folder_with_room_is_taken_by_this_process_and_its_children(tmp_path):
    use_memory(tmp_path, 1)
    assert tempfile.gettempdir() == os.environ["TMPDIR"] == str(tmp_path)


def test_a_folder_that_somebody_has_chosen_holds(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", "/chosen")
    use_memory(tmp_path, 1)
    assert os.environ["TMPDIR"] == "/chosen"


def test_a_small_folder_a_missing_one_and_one_that_runs_nothing_are_left(monkeypatch, tmp_path):
    assert has_room(tmp_path, 1)
    assert not has_room(tmp_path, 2**60)
    assert not has_room(tmp_path / "missing", 1)
    of_no_execution = SimpleNamespace(f_flag=os.ST_NOEXEC, f_bavail=2**60, f_frsize=1)
    monkeypatch.setattr(os, "statvfs", lambda _: of_no_execution)
    assert not has_room(tmp_path, 1)
