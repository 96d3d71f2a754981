"""What maintenance keeps for readers that lag behind, and what they still find."""

import time
from datetime import timedelta

import polars as pl
import pytest
from deltalake import DeltaTable

from keyfold.errors import Damaged, KeyfoldError
from keyfold.keyed.generation.run_mode import FullRefresh
from keyfold.keyed.job_run import RunOptions
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.paths import table_id
from keyfold.lakehouse.positions import Position, position_at
from keyfold.maintenance import MaintainedTable, maintain
from keyfold.maintenance import backup as making
from keyfold.maintenance.log_trimming import trim_log
from keyfold.maintenance.readers import Reader, readers
from keyfold.storage.disk_path import DiskPath
from tests.keyfold.aged_table import DAY, EVENTS, append, care, grow_old, table, touch
from tests.keyfold.keyed.toy_jobs import totals, windows
from tests.made_generations import plan_of, put_done, put_generation

__all__ = ["table"]


def generation(lakehouse: Lakehouse, name: str = "generation-0001", *, live: bool = True):
    """A generation that reads the table and has no batch yet."""
    return put_generation(
        lakehouse, "windows", name, live=live, input_ids={EVENTS: table_id(lakehouse.events("clicks"))}
    )


def read_to(table: DiskPath, version: int) -> dict[str, Position]:
    """What a job has read, as its commit record says it."""
    return {EVENTS: position_at(table, version)}


def test_files_are_kept_back_to_what_the_last_reader_has_yet_to_read(lakehouse, table):
    append(table, 1, 2)
    grow_old(table, days=10)
    append(table, 3)  # version 2, which the job has not read
    grow_old(table, days=30)
    care(lakehouse, table)
    grow_old(table, days=8)
    put_done(generation(lakehouse), 0, positions=read_to(table, 1))
    done = care(lakehouse, table)
    assert done.deleted == 0
    assert done.kept_for == "job windows, generation-0001"
    assert timedelta(days=38) < done.retention < timedelta(days=39)


def test_a_promotion_that_was_cut_off_keeps_the_files_that_it_has_yet_to_read(lakehouse, table):
    append(table, 1, 2)
    put_done(generation(lakehouse), 0, positions=read_to(table, 1))
    promoted = put_generation(
        lakehouse, "windows", "generation-0002", live=False, input_ids={EVENTS: table_id(table)}, branch="later"
    )
    put_done(promoted, 0, positions=read_to(table, 0))
    care(lakehouse, table)
    grow_old(table, days=30)
    done = care(lakehouse, table)
    assert (done.deleted, done.kept_for) == (0, "job windows, generation-0002")


def test_nothing_is_deleted_while_a_backup_runs_which_may_have_listed_it(lakehouse, table, tmp_path, monkeypatch):
    append(table, 1, 2)
    care(lakehouse, table)
    grow_old(table, days=8)
    parts, amid = making.parts_of, []

    def parts_and_care(lakehouse):
        amid.append(care(lakehouse, table))
        with pytest.raises(KeyfoldError, match=r"a backup of .* is running"):
            trim_log(lakehouse, EVENTS, table, newest=1)
        return parts(lakehouse)

    monkeypatch.setattr(making, "parts_of", parts_and_care)
    # Of the stream nothing is known: its events were not ingested.
    with pytest.raises(Damaged, match=r"is made, but lacks .*/ingest/clicks/ingest.json is gone"):
        making.back_up(lakehouse, tmp_path / "backups")
    assert {(done.deleted, "a backup" in (done.not_deleted or "")) for done in amid} == {(0, True)}
    assert care(lakehouse, table).deleted == 2


@pytest.mark.parametrize("position", [1, 2])
def test_a_reader_that_has_caught_up_holds_nothing_back(lakehouse, table, position):
    append(table, 1, 2)
    care(lakehouse, table)  # version 2, which is nothing new to a reader that was here before
    put_done(generation(lakehouse), 0, positions=read_to(table, position))
    grow_old(table, days=8)
    done = care(lakehouse, table)
    assert (done.deleted, done.kept_for) == (2, None)


@pytest.mark.parametrize(("reading", "deleted"), [(True, 0), (False, 2)])
def test_a_reader_within_its_first_run_keeps_that_version_whole(lakehouse, table, reading, deleted):
    append(table, 1, 2)
    if reading:
        plans = [plan_of(batch, EVENTS, 1, run=0, batches=2) for batch in (0, 1)]
        generation(lakehouse).journal.write_plans(plans)
        put_done(generation(lakehouse), 0, run=0)
    care(lakehouse, table)
    grow_old(table, days=60)
    # Removals so long ago are forgotten by a checkpoint of the log: the files look like those of a killed write.
    DeltaTable(str(table)).create_checkpoint()
    for file in table.glob("*.parquet"):
        touch(file, time.time() - 90 * DAY)
    assert care(lakehouse, table).deleted == deleted


def test_a_generation_before_the_live_one_and_a_refresh_that_died_hold_nothing_back(lakehouse, table):
    append(table, *range(6))
    put_done(generation(lakehouse), 0, positions=read_to(table, 0))
    generation(lakehouse, "generation-0002")
    # It has not begun, and reads the table as it will be.
    assert list(readers(lakehouse, EVENTS, table)) == []
    put_done(generation(lakehouse, "generation-0002"), 0, positions=read_to(table, 4))
    put_done(generation(lakehouse, "generation-0003", live=False), 0, positions=read_to(table, 1))
    live = Reader("job windows, generation-0002", 5, 4)
    assert list(readers(lakehouse, EVENTS, table)) == [live]
    with lakehouse.job("windows").exclusive("job windows"):
        assert list(readers(lakehouse, EVENTS, table)) == [live, Reader("job windows, generation-0003", 2, 1)]


def test_a_plan_that_is_not_done_keeps_what_was_new_when_its_run_began(lakehouse, table):
    append(table, *range(10))
    job = generation(lakehouse)
    put_done(job, 0, positions=read_to(table, 2))
    job.journal.write_plans([plan_of(batch, EVENTS, 9, run=1, batches=2) for batch in (1, 2)])
    put_done(job, 1, run=1, positions=read_to(table, 2))
    assert list(readers(lakehouse, EVENTS, table)) == [Reader("job windows, generation-0001", 3, 2)]


def test_readers_of_other_tables_of_a_table_that_was_here_before_and_of_an_older_form_hold_nothing_back(
    lakehouse, table
):
    append(table, 1)
    put_done(put_generation(lakehouse, "windows", input_ids={EVENTS: "another"}), 0, positions=read_to(table, 0))
    put_done(put_generation(lakehouse, "older", format=1), 0, positions=read_to(table, 0))
    assert list(readers(lakehouse, EVENTS, table)) == []
    put_done(generation(lakehouse), 1, positions=read_to(table, 0))
    (lakehouse.events("other")).mkdir()
    append(lakehouse.events("other"), 1)
    assert list(readers(lakehouse, "events.other", lakehouse.events("other"))) == []


def test_where_it_cannot_be_told_how_far_a_reader_has_come_nothing_is_deleted(lakehouse, table):
    append(table, 1, 2)
    care(lakehouse, table)
    grow_old(table, days=60)
    job = generation(lakehouse)
    put_done(job, 0, positions=read_to(table, 0))
    record = job.folder / "journal" / "000000000.done.json"
    good = record.read_text()
    record.write_text('{"batch": 0}')
    done = care(lakehouse, table)
    assert done.deleted == 0
    assert "is damaged" in (done.not_deleted or "")
    record.write_text(good)
    DeltaTable(str(table)).create_checkpoint()
    (table / "_delta_log" / f"{1:020d}.json").unlink()
    done = care(lakehouse, table)
    assert done.deleted == 0
    assert "has no entry of version 1" in (done.not_deleted or "")


def test_a_reader_meets_joined_files_once_and_finds_what_it_has_yet_to_read(lake, lakehouse, table):
    job, file_by_file = windows(), RunOptions(max_bytes_per_batch=1)
    append(table, 0, 1, 2)
    lake.run(job)
    append(table, 20, 21, 22)
    grow_old(table, days=30)
    assert care(lakehouse, table).files_after == 1
    grow_old(table, days=10)
    # The three files that the job read are replaced by one and 10 days past that; the three that it has not are too.
    kept = care(lakehouse, table)
    assert kept.kept_for == "job windows, generation-0001"
    summary = lake.run(job, options=file_by_file)
    assert (summary.counts.events, summary.totals.events) == (3, 6)
    assert care(lakehouse, table).deleted == 6
    assert lake.run(job).counts.events == 0
    append(table, 40)
    assert lake.run(job).counts.events == 1
    afresh = lake.run(job, FullRefresh())
    assert afresh.totals.events == 7
    assert afresh.totals.rows["late.windows"] == 0


def test_a_run_that_was_cut_off_finds_its_files_and_its_rows_after_maintenance(lake, lakehouse, table, cut_power):
    append(table, *range(30))
    lake.run(totals())
    append(table, *range(30, 60))
    assert cut_power("commit: before", lambda: lake.run(totals()))
    live = lake.live("totals")
    for path in (table, live.table("totals"), live.table("changes")):
        grow_old(DiskPath(str(path)), days=20)
    assert care(lakehouse, table).files_after == 1
    grow_old(table, days=20)
    # The batch is committed: no run reads its files again.
    assert care(lakehouse, table).deleted == 60
    for name in ("totals", "changes"):
        written = [done.tables.get(name, ()) for done in live.journal.recent()]
        assert maintain(lakehouse, MaintainedTable(name, live.table(name), written)).deleted == 0
    assert lake.run(totals()).totals.events == 60
    assert pl.read_delta(str(live.table("totals"))).rows() == [("ann", 60)]
    assert pl.read_delta(str(live.table("changes")))["clicks"].sum() == 60
