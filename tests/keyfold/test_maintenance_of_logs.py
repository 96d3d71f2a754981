"""Logs of Delta tables: what is deleted of them, and who can read on all the same."""

import os
import time
from datetime import timedelta

import polars as pl
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from keyfold.keyed.generation.run_mode import Incremental, Replay
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.commits import append_files, committed_batch
from keyfold.lakehouse.data_files import write_data_file
from keyfold.lakehouse.log_changes import changes_since
from keyfold.lakehouse.paths import create_table, table_id
from keyfold.lakehouse.positions import position_at
from keyfold.maintenance import MaintainedTable, maintain
from keyfold.maintenance.log_trimming import trim_log
from keyfold.maintenance.one_table import remember_removals
from keyfold.state.changing.promoting import promote
from tests.chained_jobs import DAILY, HOURLY, Chain
from tests.made_generations import put_done, put_generation
from tests.shop import CLICK, NOON, clicks

EVENTS, EVERY = "events.clicks", 5
KEPT = 7


@pytest.fixture
def table(lakehouse: Lakehouse):
    """A table of 40 versions with a checkpoint every five, all of it an hour old."""
    folder = lakehouse.events("clicks")
    create_table(folder, CLICK)
    DeltaTable(str(folder)).alter.set_table_properties({"delta.checkpointInterval": str(EVERY)})
    for minute in range(2, 41):
        append(folder, minute)
    for entry in (folder / "_delta_log").iterdir():
        os.utime(str(entry), (time.time() - 3600, time.time() - 3600))
    return folder


def append(folder, minute):
    append_files(folder, [write_data_file(clicks(("ann", minute)), folder, CLICK)], "ingest", minute)


def versions(folder):
    return sorted(int(entry.stem) for entry in (folder / "_delta_log").glob("*.json"))


def minutes(folder):
    return sorted(pl.read_delta(str(folder))["at"].dt.minute().to_list())


def test_the_newest_entries_are_kept_from_a_checkpoint_on_and_the_table_is_what_it_was(lakehouse, table):
    newest = DeltaTable(str(table)).version()
    before = (minutes(table), table_id(table), committed_batch(table, "ingest"))
    assert trim_log(lakehouse, EVENTS, table, newest=KEPT) > 0
    left = versions(table)
    assert left == list(range(left[0], newest + 1))
    assert KEPT <= len(left) - 1 < KEPT + EVERY
    assert (minutes(table), table_id(table), committed_batch(table, "ingest")) == before
    assert DeltaTable(str(table), version=newest - KEPT).count() == len(before[0]) - KEPT
    append(table, 41)
    assert minutes(table) == [*before[0], 41]
    # Delta's own pointer and each checkpoint that is left are of versions that are there.
    checkpoints = [int(entry.name[:20]) for entry in (table / "_delta_log").glob("*.checkpoint.parquet")]
    assert min(checkpoints) == left[0]


def test_a_job_that_lags_behind_still_finds_what_is_new_to_it(lakehouse, table):
    generation = put_generation(lakehouse, "windows", input_ids={EVENTS: table_id(table)})
    put_done(generation, 0, positions={EVENTS: position_at(table, 12)})
    expected = changes_since(table, position_at(table, 12), "at")
    assert trim_log(lakehouse, EVENTS, table, newest=KEPT) > 0
    assert changes_since(table, position_at(table, 12), "at") == expected
    assert versions(table)[0] <= 12


def test_who_has_listed_the_log_just_now_may_still_read_it(lakehouse, table):
    for entry in (table / "_delta_log").iterdir():
        os.utime(entry)
    assert trim_log(lakehouse, EVENTS, table, newest=KEPT) == 0


def test_without_a_checkpoint_nothing_is_deleted(lakehouse):
    folder = lakehouse.events("clicks")
    create_table(folder, CLICK)
    for minute in range(1, 7):
        append(folder, minute)
    for entry in (folder / "_delta_log").iterdir():
        os.utime(entry, (0, 0))
    assert not list((folder / "_delta_log").glob("*.checkpoint.parquet"))
    assert trim_log(lakehouse, EVENTS, folder, newest=1) == 0


def test_checkpoints_forget_replaced_files_after_the_retention_and_who_reads_the_table_notices_nothing(
    lakehouse, table
):
    before = position_at(table, DeltaTable(str(table)).version())
    maintain(lakehouse, MaintainedTable(EVENTS, table, time="at"))
    appended = append_until_checkpoint(table, 41)
    assert removals(table) == 39
    remember_removals(table, timedelta(0))
    appended += append_until_checkpoint(table, 51)
    assert removals(table) == 0
    assert minutes(table) == [*range(2, 41), *appended]
    assert sum(file.rows for file in changes_since(table, before, "at").files) == len(appended)


def test_a_table_is_told_once_for_how_long_to_remember_and_may_be_told_otherwise(lakehouse, table):
    def told():
        return DeltaTable(str(table)).metadata().configuration.get("delta.deletedFileRetentionDuration")

    before = DeltaTable(str(table)).version()
    remember_removals(table, timedelta(days=7))
    assert (DeltaTable(str(table)).version(), told()) == (before, None)
    for _ in range(2):
        remember_removals(table, timedelta(hours=1))
        assert (DeltaTable(str(table)).version(), told()) == (before + 1, "interval 3600 seconds")
    remember_removals(table, timedelta(days=7))
    assert told() == "interval 604800 seconds"


def append_until_checkpoint(folder, minute):
    """Append a row a minute, until a checkpoint is written; gives the minutes."""
    appended, before = [], checkpoint(folder)
    while checkpoint(folder) == before:
        appended.append(minute + len(appended))
        append(folder, appended[-1])
    return appended


def checkpoint(folder):
    return max((folder / "_delta_log").glob("*.checkpoint.parquet"))


def removals(folder):
    """Replaced files that the newest checkpoint names."""
    return sum(row["remove"] is not None for row in pq.read_table(checkpoint(folder)).to_pylist())


def test_a_consumer_that_was_off_for_longer_than_delta_keeps_its_log_goes_on(tmp_path):
    site = Chain(tmp_path / "home")
    for minute in (0, 70):
        site.click(("ann", minute))
        site.run(HOURLY)
    site.run(DAILY)
    table = site.lakehouse.table("hourly")
    newest = DeltaTable(str(table)).version()
    DeltaTable(str(table)).alter.set_table_properties({"delta.checkpointInterval": "3"})
    for hour in range(2, 10):
        site.click(("ann", 70 * hour))
        site.run(HOURLY)
        for entry in (table / "_delta_log").iterdir():
            os.utime(str(entry), (time.time() - 40 * 86400, time.time() - 40 * 86400))
    # Delta's own commits have come to a checkpoint twice, after which it would clean up; and Keyfold's maintenance ran.
    maintain(site.lakehouse, MaintainedTable("hourly", table))
    trim_log(site.lakehouse, "hourly", table, newest=1)
    assert versions(table)[0] <= newest
    site.run(HOURLY, Incremental(NOON + timedelta(days=9)))
    site.run(DAILY)
    # As by hand: each click is in an hour, and each hour in a day.
    assert sum(clicks for *_, clicks in site.table("daily")) == 10


def test_what_a_branch_has_yet_to_read_outlives_maintenance(tmp_path):
    site = Chain(tmp_path / "home")
    site.click(("ann", 0))
    site.run(HOURLY)
    site.run(HOURLY, Replay("again"))
    for minute in (70, 140, 210):
        site.click(("ann", minute))
        site.run(HOURLY)
    table = site.lakehouse.events("clicks")
    before = {path.name for path in table.glob("*.parquet")}
    done = maintain(site.lakehouse, MaintainedTable(EVENTS, table, time="at"), timedelta(0))
    assert done.kept_for == "branch again of job hourly"
    assert {path.name for path in table.glob("*.parquet")} >= before
    promote(site.lakehouse, "hourly", "again")
    assert site.run(HOURLY).counts.events == 3
    site.run(HOURLY, Replay("range", until=NOON + timedelta(hours=1)))
    assert maintain(site.lakehouse, MaintainedTable(EVENTS, table, time="at"), timedelta(0)).kept_for is None
