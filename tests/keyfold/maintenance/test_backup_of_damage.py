"""What a backup could not have whole, it says: it is not made, or it is made and the damage is named."""

import json
import shutil
from pathlib import Path

import pytest

from keyfold.errors import Damaged, IncompatibleState, KeyfoldError
from keyfold.lakehouse import Lakehouse
from keyfold.maintenance import backup as making
from keyfold.maintenance import checking
from keyfold.maintenance.backup import back_up, backups_in, restore
from tests.chained_jobs import DAILY, HOURLY, Chain
from tests.damages import cut_short, delete, empty, write


@pytest.fixture(autouse=True)
def try_once(monkeypatch):
    monkeypatch.setattr(checking, "_TRIES", 1)
    monkeypatch.setattr(making, "_TRIES", 1)


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    site = Chain(tmp_path_factory.mktemp("ran") / "home")
    for minute in (0, 70, 2000):
        site.click(("ann", minute), ("bob", minute + 1))
        for job in (HOURLY, DAILY):
            site.run(job)
    return site


@pytest.fixture
def home(ran, tmp_path) -> Path:
    return Path(shutil.copytree(str(ran.lakehouse.home), tmp_path / "home"))


def of_version(number: int):
    def change(path: Path) -> None:
        path.write_text(json.dumps(json.loads(path.read_text()) | {"format": number}))

    return change


GENERATION = "jobs/hourly/generation-0001/generation.json"
RECORDS = [
    ("live.json", delete, "live.json is lost"),
    ("live.json", empty, "live.json is damaged"),
    ("live.json", write("{}"), "live.json is damaged, while generation-0001 exists"),
    ("live.json", write("[]"), "live.json is damaged"),
    (GENERATION, delete, "which is gone; restore it"),
    (GENERATION, cut_short, "generation.json is damaged"),
    (GENERATION, of_version(7), "was made by an earlier version of Keyfold"),
    ("ingest/clicks/ingest.json", delete, "ingest.json is gone"),
    ("ingest/clicks/ingest.json", of_version(0), "is of another version of Keyfold"),
]


@pytest.mark.parametrize(("name", "damage", "said"), RECORDS)
def test_no_backup_is_made_where_a_record_does_not_say_what_belongs_to_it(home, tmp_path, name, damage, said):
    damage(home / name)
    with pytest.raises((Damaged, IncompatibleState), match=said):
        back_up(Lakehouse(home), tmp_path / "backups")
    assert backups_in(tmp_path / "backups") == []


def test_a_generation_of_an_earlier_version_that_was_replaced_is_copied_as_it_is(home, tmp_path):
    older = home / "jobs" / "hourly" / "generation-0000"
    shutil.copytree(home / "jobs" / "hourly" / "generation-0001", older)
    of_version(7)(older / "generation.json")
    back_up(Lakehouse(home), tmp_path / "backups")
    restore(tmp_path / "backups", Lakehouse(tmp_path / "again"))
    copy = tmp_path / "again" / older.relative_to(home)
    assert (copy / "generation.json").read_bytes() == (older / "generation.json").read_bytes()


@pytest.mark.parametrize("table", ["tables/hourly", "events/clicks"])
@pytest.mark.parametrize("damage", [delete, empty, cut_short])
def test_no_backup_is_made_of_a_table_that_lacks_a_file_or_a_part_of_it(home, tmp_path, table, damage):
    damage(max((home / table).glob("part-*")))
    with pytest.raises(KeyfoldError, match=r"could not be backed up.* was listed"):
        back_up(Lakehouse(home), tmp_path / "backups")
    assert backups_in(tmp_path / "backups") == []


def test_no_backup_is_made_of_a_table_whose_log_is_gone(home, tmp_path):
    delete(home / "tables" / "hourly" / "_delta_log")
    with pytest.raises(KeyfoldError, match="is no table any more"):
        back_up(Lakehouse(home), tmp_path / "backups")


def test_what_else_is_among_the_tables_is_named(home, tmp_path):
    (home / "tables" / "stray").mkdir()
    (home / "tables" / "stray" / "part-1.parquet").write_bytes(b"rows")
    for folder in ("tables", "events", "quarantine", "ingest", "jobs", "monitoring"):
        (home / folder).mkdir(exist_ok=True)
        (home / folder / "note.txt").touch()
    with pytest.raises(Damaged, match=r"is made, but lacks .*note\.txt is no table.*stray is no table"):
        back_up(Lakehouse(home), tmp_path / "backups")
    restore(tmp_path / "backups", again := Lakehouse(tmp_path / "again"))
    assert again.tables().keys() == Lakehouse(home).tables().keys()


def test_a_stream_whose_ingest_is_lost_is_named_and_the_rest_is_copied(home, tmp_path):
    delete(home / "ingest" / "clicks")
    with pytest.raises(Damaged, match=r"is made, but lacks .*ingest\.json is gone"):
        back_up(Lakehouse(home), tmp_path / "backups")


def test_a_journal_that_is_older_than_its_table_is_refused(home, tmp_path):
    for record in sorted((home / "jobs" / "hourly" / "generation-0001" / "journal").glob("*.done.json"))[-1:]:
        record.unlink()
    with pytest.raises(KeyfoldError, match="the journal is older than the table"):
        back_up(Lakehouse(home), tmp_path / "backups")
    assert backups_in(tmp_path / "backups") == []
