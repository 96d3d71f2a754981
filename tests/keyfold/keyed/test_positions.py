"""A job goes on only from the history of the event table that it has read, and never past a gap in the table's log."""

import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable

from keyfold.errors import KeyfoldError
from keyfold.keyed.conservation import check_conservation
from keyfold.keyed.generation.run_mode import Replay
from keyfold.keyed.job_run import run_job
from keyfold.state.changing.promoting import promote
from tests.folders import copy_folder, remove_folder
from tests.keyfold.house import House, house
from tests.keyfold.keyed.toy_jobs import totals
from tests.lake import LOCAL

__all__ = ["house"]

OTHER_HISTORY = r"has read another history of events\.clicks"


class Backup:
    """What ingest keeps of a stream, as it is now."""

    def __init__(self, house: House) -> None:
        lakehouse = house.lakehouse
        self._kept = lakehouse.home.with_name("backup")
        self._folders = [lakehouse.events("clicks"), lakehouse.quarantine("clicks"), lakehouse.ingest("clicks")]
        for number, folder in enumerate(self._folders):
            copy_folder(folder, self._kept / str(number))

    def restore(self) -> None:
        for number, folder in enumerate(self._folders):
            remove_folder(folder)
            copy_folder(self._kept / str(number), folder)


@pytest.mark.parametrize("order", [("bob", "cid"), ("cid", "bob")])
@pytest.mark.parametrize("is_killed", [False, True], ids=["done", "planned and not done"])
def test_an_event_table_that_was_restored_and_filled_anew_is_refused(house, monkeypatch, order, is_killed):
    backup = Backup(house)
    later = [house.land((user, minute)) for minute, user in ((10, "bob"), (11, "cid"))]
    for file in later:
        shutil.move(file, file.with_suffix(".later"))
    for file in later:
        shutil.move(file.with_suffix(".later"), file)
        house.ingest()
    if is_killed:
        with monkeypatch.context() as patch:
            patch.setattr("keyfold.keyed.execution.batches.Batches.work", fail)
            house.attempt("run", "totals")
        assert house.live.journal.pending()
    else:
        house.run()
    backup.restore()
    for file in later:
        file.unlink()
    for user in order:
        house.land((user, {"bob": 10, "cid": 11}[user]))
        house.ingest()
    message = house.refused("run", "totals")
    assert "has read another history of events.clicks" in message
    if not is_killed:
        with pytest.raises(KeyfoldError, match=OTHER_HISTORY):
            check_conservation(house.lakehouse, totals())  # type: ignore[arg-type]
    house.do(message)
    assert house.totals() == {"ann": 2, "bob": 2, "cid": 1}


def fail(*_: object) -> None:
    raise OSError("the disk is full")


def test_a_branch_that_has_read_another_history_is_not_promoted(house):
    backup = Backup(house)
    run_job(house.lakehouse, totals(), Replay("again"), runners=LOCAL)
    promote(house.lakehouse, "totals", "again")
    house.land(("bob", 10))
    house.ingest()
    run_job(house.lakehouse, totals(), Replay("again"), runners=LOCAL)
    backup.restore()
    house.ingest()
    with pytest.raises(KeyfoldError, match=rf"{OTHER_HISTORY}.*make the branch again: `keyfold try totals again`"):
        promote(house.lakehouse, "totals", "again")


@pytest.mark.parametrize("behind_checkpoint", [True, False])
def test_a_gap_in_the_log_is_damage_for_runs_and_for_conservation(house, behind_checkpoint):
    for minute in (10, 11, 12):
        house.land(("bob", minute))
        house.ingest()
    table = house.lakehouse.events("clicks")
    if behind_checkpoint:
        DeltaTable(str(table)).create_checkpoint()
    # Versions 1 to 3 were read, 4 to 6 are new.
    entry = table / "_delta_log" / f"{5:020d}.json"
    content = entry.read_bytes()
    entry.unlink()
    message = house.refused("run", "totals")
    with pytest.raises(KeyfoldError, match=r"events\.clicks.*(no entry of version 5|cannot be read).*--full-refresh"):
        check_conservation(house.lakehouse, totals())  # type: ignore[arg-type]
    if behind_checkpoint:
        assert "no entry of version 5" in message
        house.do(message)
    else:
        entry.write_bytes(content)
        house.run()
    assert house.totals() == {"ann": 2, "bob": 4}


def test_entries_before_what_was_read_may_be_gone(house):
    table = house.lakehouse.events("clicks")
    DeltaTable(str(table)).create_checkpoint()
    for version in (0, 1):
        (table / "_delta_log" / f"{version:020d}.json").unlink()
    house.land(("bob", 10))
    house.ingest()
    house.run()
    assert house.totals() == {"ann": 2, "bob": 2}


def test_what_another_tool_has_compacted_and_vacuumed_before_a_run_wants_a_full_refresh(house):
    for minute in (10, 11):
        house.land(("bob", minute))
        house.ingest()
    table = DeltaTable(str(house.lakehouse.events("clicks")))
    table.optimize.compact()
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    message = house.refused("run", "totals")
    assert "another tool has compacted the table" in message
    assert house.refused("run", "totals") == message, "a second run finds the first one's plan"
    house.do(message)
    assert house.totals() == {"ann": 2, "bob": 3}


def test_delta_deletes_no_entries_of_an_event_table_by_their_age(house):
    log = Path(str(house.lakehouse.events("clicks"))) / "_delta_log"
    assert DeltaTable(str(log.parent)).metadata().configuration["delta.enableExpiredLogCleanup"] == "false"
