"""The loss of any entry of `monitoring.edits` is found, also of the newest ones, which no other record names."""

from pathlib import Path

import pytest

from keyfold.journal.audit import Author, mask_in_edits, record_edit
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.positions import remembered
from keyfold.lakehouse.reading import count_rows
from keyfold.maintenance import checking
from keyfold.maintenance.backup import back_up, restore
from keyfold.maintenance.checking import check
from keyfold.storage.disk_path import DiskPath
from tests.damages import WRONG_JSON, cut_short, delete, empty, put_wrong_json, zero_some

BY = Author("ann", "a fault of a sensor")
EDITS = 4


@pytest.fixture(autouse=True)
def look_once(monkeypatch):
    monkeypatch.setattr(checking, "_TRIES", 1)


def edit(lakehouse: Lakehouse, user: str = "bob") -> None:
    record_edit(lakehouse, BY, "corrected", "totals", [{"user": user}], {"totals": 1}, "generation-0001")


@pytest.fixture
def edited(tmp_path: DiskPath) -> Lakehouse:
    lakehouse = Lakehouse(tmp_path / "home")
    for number in range(EDITS):
        edit(lakehouse, f"user {number}")
    return lakehouse


def log_of(lakehouse: Lakehouse) -> list[Path]:
    return sorted(Path(str(lakehouse.monitoring("edits"))).glob("_delta_log/*.json"))


def damaged(lakehouse: Lakehouse) -> list[str]:
    return [f"{finding.path}: {finding.fault}" for finding in check(lakehouse) if finding.is_damage]


def test_edits_that_are_all_there_are_whole_also_once_keys_are_masked(edited: Lakehouse):
    assert check(edited) == []
    assert mask_in_edits(edited, {"user": ["user 1"]}, yes=True) == 1
    assert check(edited) == []
    edit(edited)
    assert check(edited) == []


@pytest.mark.parametrize("damage", [delete, empty, cut_short, zero_some, *map(put_wrong_json, WRONG_JSON)])
@pytest.mark.parametrize("entry", range(1 + EDITS))
def test_each_entry_that_is_lost_or_damaged_is_found(edited: Lakehouse, damage, entry: int):
    damage(log_of(edited)[entry])
    assert damaged(edited)


@pytest.mark.parametrize("lost", range(1, EDITS + 1))
def test_the_newest_entries_are_missed_however_many_are_lost(edited: Lakehouse, lost: int):
    for entry in log_of(edited)[-lost:]:
        entry.unlink()
    assert count_rows(edited.monitoring("edits")) == EDITS - lost
    (found,) = damaged(edited)
    assert "has lost entries" in found
    # Entries that are written after that do not hide it.
    for _ in range(EDITS):
        edit(edited)
        assert any("has lost entries" in found for found in damaged(edited))


def test_a_record_that_is_lost_is_named_and_a_damaged_one_is_damage(edited: Lakehouse):
    record = remembered(edited.monitoring("edits"))
    content = record.read_bytes()
    record.unlink()
    (finding,) = check(edited)
    assert (finding.path, finding.is_damage) == (str(record), False)
    edit(edited)
    assert check(edited) == []
    for text in (b"", b"{}", b"[]", content[: len(content) // 2]):
        record.write_bytes(text)
        assert damaged(edited)


def test_a_backup_has_the_record_with_the_entries(edited: Lakehouse, tmp_path: DiskPath):
    back_up(edited, tmp_path / "backups")
    restore(tmp_path / "backups", again := Lakehouse(tmp_path / "again"))
    assert check(again) == []
    log_of(again)[-1].unlink()
    assert damaged(again)
