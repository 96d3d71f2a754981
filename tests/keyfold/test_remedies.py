"""Every remedy that an error names is done as it is written, by the command line, and then all goes on right.

What the errors say is taken from them: `keyfold …` in backticks is typed as it stands, "--full-refresh" is given to the
job that failed. Without Spark.
"""

import os
import re
import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable

from keyfold.ingestion import known, known_files
from keyfold.journal import journal
from keyfold.stream import Stream
from spark_jobs.streams import STREAMS
from tests.damages import cut_short, delete
from tests.keyfold.house import house, rows_of

__all__ = ["house"]


def changed_events(house):
    DeltaTable(str(house.lakehouse.events("clicks"))).delete("user = 'nobody'")
    DeltaTable(str(house.lakehouse.events("clicks"))).delete("user = 'bob'")


def cleaned_log(house):
    for minute in (5, 6):
        house.land(("bob", minute))
        house.ingest()
    log = house.lakehouse.events("clicks") / "_delta_log"
    DeltaTable(str(log.parent)).create_checkpoint()
    for entry in sorted(log.glob("*.json"))[:-1]:
        entry.unlink()


LOG = "events/clicks/_delta_log/*.json"


@pytest.mark.parametrize(
    ("fault", "told", "clicks"),
    [
        (changed_events, "were changed or deleted after", {"ann": 2}),
        (cleaned_log, r"cannot tell what is new in events\.clicks", {"ann": 2, "bob": 3}),
    ],
)
def test_a_job_that_cannot_go_on_does_so_once_what_its_error_says_is_done(house, fault, told, clicks):
    fault(house)
    mend_and_go_on(house, told, clicks)


def mend_and_go_on(house, told, clicks):
    message = house.refused("run", "totals")
    assert re.search(told, message)
    house.do(message)
    assert house.totals() == clicks
    house.land(("eve", 9))
    house.ingest()
    house.run()
    assert house.totals() == {**clicks, "eve": 1}


def test_a_pointer_that_is_written_as_its_error_says_brings_the_generation_back(house):
    delete(house.lakehouse.home / "live.json")
    message = house.refused("run", "totals")
    ((path, content),) = re.findall(r"job totals: (.*live\.json) is lost.*write (\{.*\}) to it", message)
    Path(path).write_text(content)
    house.land(("bob", 9))
    house.ingest()
    assert "(generation-0001): 1 event" in house.run()
    assert house.totals() == {"ann": 2, "bob": 2}


def test_a_part_that_is_restored_as_its_error_says_goes_on(house, tmp_path):
    shutil.copytree(house.live.folder, tmp_path / "backup")
    shutil.rmtree(house.live.folder / "state")
    assert "restore it from a backup" in house.refused("run", "totals")
    shutil.copytree(tmp_path / "backup" / "state", house.live.folder / "state")
    house.land(("bob", 9))
    house.ingest()
    assert "(generation-0001): 1 event" in house.run()


def lose_events(house):
    shutil.rmtree(house.lakehouse.events("clicks"))


def other_columns(house):
    stream = STREAMS["clicks"]
    house._monkeypatch.setitem(
        STREAMS,
        "clicks",
        Stream(name="clicks", schema=stream.schema.remove(2), event_time="at", event_id=("user", "at")),
    )


def test_an_ingest_whose_table_has_more_columns_is_rebuilt_by_the_command_that_its_error_names(house):
    other_columns(house)
    message = house.refused("ingest", "clicks")
    assert "clicks is only in the table" in message
    house.do(message)
    assert house.events() == ["ann", "ann", "bob"]
    house.land(("eve", 9), ("eve", 9))
    assert "1 accepted, 0 quarantined, 1 duplicate" in house.ingest()
    assert "0 rows from 0 files" in house.ingest()


def test_a_lost_event_table_comes_back_from_all_of_its_landing_folders_and_its_jobs_go_on(house, tmp_path):
    house.land(("eve", 7), folder=tmp_path / "elsewhere")
    house.keyfold("ingest", "clicks", "--settle", "0", "--from", str(tmp_path / "elsewhere"))
    house.run()
    lose_events(house)
    message = house.refused("run", "totals")
    assert "is gone from" in message
    house.do(message)
    assert house.events() == ["ann", "ann", "bob", "eve"]
    assert house.totals() == {"ann": 2, "bob": 1, "eve": 1}
    house.land(("bob", 9))
    house.ingest()
    house.run()
    assert house.totals() == {"ann": 2, "bob": 2, "eve": 1}


def damage_event_log(house):
    cut_short(max(house.lakehouse.home.glob(LOG)))


def damage_new_events(house):
    house.land(("eve", 7))
    house.ingest()
    cut_short(max(house.lakehouse.events("clicks").glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns))


@pytest.mark.parametrize("fault", [damage_event_log, damage_new_events])
def test_a_job_whose_events_cannot_be_read_says_so_and_goes_on_once_they_are_made_anew(house, fault):
    fault(house)
    message = house.refused("run", "totals")
    assert "which cannot be read" in message
    house.do(message)
    assert house.totals()["ann"] == 2


def test_a_job_that_was_not_told_of_a_rebuild_is_told_when_it_runs(house):
    lose_events(house)
    house.do(house.refused("ingest", "clicks"))
    message = house.refused("run", "totals")
    assert "is not the table that it has read, but another one" in message
    house.do(message)
    assert house.totals() == {"ann": 2, "bob": 1}


def test_what_a_rebuild_replaces_is_kept_and_what_it_cannot_find_again_is_told(house):
    sorted(house.landing.iterdir())[0].unlink()
    said = " ".join(house.keyfold("ingest", "clicks", "--settle", "0", "--rebuild").split())
    assert "1 of 3 files that were read from" in said
    assert house.events() == ["ann", "bob"]
    (aside,) = (house.lakehouse.home / "aside").iterdir()
    assert sorted(rows_of(aside / "events")["user"]) == ["ann", "ann", "bob"]
    assert sorted(path.name for path in aside.iterdir()) == ["events", "ingest", "quarantine"]


def test_nothing_is_moved_where_no_landing_folder_is_left(house):
    house.landing.rename(house.landing.with_name("gone"))
    assert "none of its landing folders exists" in house.refused("ingest", "clicks", "--rebuild")
    house.landing.with_name("gone").rename(house.landing)
    assert "0 rows from 0 files" in house.ingest()
    assert house.events() == ["ann", "ann", "bob"]


@pytest.mark.parametrize("point", ["rebuild: one table moved", "work: before"])
def test_a_rebuild_that_broke_off_is_finished_by_the_same_command(house, cut_power, point):
    def rebuild():
        ended = house.attempt("ingest", "clicks", "--settle", "0", "--rebuild")
        if ended.exception is not None and not isinstance(ended.exception, SystemExit):
            raise ended.exception

    assert cut_power(point, rebuild)
    message = house.refused("ingest", "clicks")
    assert "a rebuild of its tables is unfinished" in message
    house.do(message)
    assert house.events() == ["ann", "ann", "bob"]
    (aside,) = (house.lakehouse.home / "aside").iterdir()
    assert sorted(rows_of(aside / "events")["user"]) == ["ann", "ann", "bob"]
    assert "0 rows from 0 files" in house.ingest()


def test_a_lost_index_of_files_is_rebuilt_by_the_command_that_its_error_names(house, monkeypatch):
    assert known.BATCHES_BETWEEN < journal.KEPT
    # So that the journal's own records soon name all files no longer.
    monkeypatch.setattr(journal, "KEPT", 2)
    monkeypatch.setattr(known, "BATCHES_BETWEEN", 1)
    for number in range(10, 16):
        house.land(("eve", number))
        house.ingest()
    # Every file is known, however many batches ago it was read, and one that is touched too; so it is beside a killed write.
    oldest = min(house.landing.iterdir())
    for _ in range(2):
        os.utime(oldest, (1, 1))
        assert "0 rows from 0 files" in house.ingest()
        assert known_files(house.lakehouse, "clicks", house.landing)[oldest.name].modified_at == 1_000_000_000
        (house.lakehouse.ingest("clicks") / "files" / ".aside-xyz").write_bytes(b"half a table")
    shutil.rmtree(house.lakehouse.ingest("clicks") / "files")
    message = house.refused("ingest", "clicks")
    assert "it is not known which files were read" in message
    house.do(message)
    assert house.events() == ["ann", "ann", "bob", *["eve"] * 6]


def test_a_lost_index_of_ids_is_made_anew_and_copies_are_still_found(house):
    for segment in (house.lakehouse.ingest("clicks") / "ids").iterdir():
        segment.unlink()
    house.land(("ann", 1), ("eve", 9))
    said = " ".join(house.ingest().split())
    assert "it was rebuilt from the event table" in said
    assert "1 accepted, 0 quarantined, 1 duplicate" in said
