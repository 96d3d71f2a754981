"""Maintenance of tables: what is joined, what is deleted, and what a reader that lags behind still finds."""

import json
import os
import time
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from spark_jobs.keyed.conservation import check_conservation
from spark_jobs.keyed.generations import live_generation
from spark_jobs.keyed.runner import RunOptions, run_job
from spark_jobs.lakehouse import Lakehouse, write_json
from spark_jobs.maintenance import Reader, maintain, readers
from tests.spark_jobs.keyed.toy_jobs import clicks, windows

DAY = 86_400


@pytest.fixture
def table(lakehouse: Lakehouse) -> Path:
    lakehouse.events("clicks").mkdir(parents=True)
    return lakehouse.events("clicks")


def append(table: Path, *minutes: int) -> None:
    for minute in minutes:
        write_deltalake(
            str(table),
            clicks(("ann", minute)),
            mode="append",
            commit_properties=CommitProperties(app_transactions=[Transaction("ingest", minute)]),
        )


def grow_old(table: Path, days: float) -> None:
    """Make all that was done to a table so many days older."""
    for log in (table / "_delta_log").glob("*.json"):
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        for action in actions:
            for name, key in (("commitInfo", "timestamp"), ("remove", "deletionTimestamp")):
                if name in action:
                    action[name][key] -= int(days * DAY * 1000)
        log.write_text("".join(json.dumps(action) + "\n" for action in actions))
    for file in table.glob("*.parquet"):
        touch(file, file.stat().st_mtime - days * DAY)


def touch(file: Path, at: float) -> None:
    os.utime(file, (at, at))


def data_files(table: Path) -> int:
    return len(list(table.glob("*.parquet")))


def rows(table: Path) -> list[int]:
    return sorted(pl.read_delta(str(table))["at"].dt.minute().to_list())


def checkpoint(lakehouse: Lakehouse, generation: str, *ends: tuple[int, bool], finished: int, live: bool = True):
    """A job's checkpoint: the offsets that its batches end at, each (version, whether within the first snapshot)."""
    folder = lakehouse.job("windows") / generation
    write_json(folder / "generation.json", {"identity": "x"})
    identity = str(DeltaTable(str(lakehouse.events("clicks"))).metadata().id)
    for log in ("offsets", "commits"):
        (folder / "checkpoint" / log).mkdir(parents=True)
    for batch, (version, is_snapshot) in enumerate(ends):
        offset = {
            "sourceVersion": 1,
            "reservoirId": identity,
            "reservoirVersion": version,
            "index": 0 if is_snapshot else -1,
            "isStartingVersion": is_snapshot,
        }
        (folder / "checkpoint" / "offsets" / str(batch)).write_text(
            f'v1\n{{}}\n{json.dumps(offset)}\n{{"logOffset":0}}'
        )
    for batch in range(finished):
        (folder / "checkpoint" / "commits" / str(batch)).write_text("v1\n{}")
    if live:
        write_json(lakehouse.job("windows") / "current.json", {"generation": generation})


def test_small_files_are_joined_and_kept_for_the_retention(lakehouse, table):
    append(table, 1, 2, 3)
    done = maintain(lakehouse, table)
    assert (done.files_before, done.files_after, done.deleted) == (3, 1, 0)
    assert (data_files(table), rows(table)) == (4, [1, 2, 3])
    assert done.not_deleted is done.kept_for is None
    grow_old(table, days=6)
    assert maintain(lakehouse, table).deleted == 0
    grow_old(table, days=2)
    later = maintain(lakehouse, table)
    assert (later.deleted, data_files(table), rows(table)) == (3, 1, [1, 2, 3])
    assert later.bytes_after < later.bytes_before


def test_a_night_without_anything_to_do_leaves_no_trace(lakehouse, table):
    append(table, 1, 2)
    maintain(lakehouse, table)
    version = DeltaTable(str(table)).version()
    maintain(lakehouse, table)
    assert DeltaTable(str(table)).version() == version


def test_what_was_written_exactly_once_is_still_known(lakehouse, table):
    append(table, 1, 2)
    maintain(lakehouse, table)
    assert DeltaTable(str(table)).transaction_version("ingest") == 2


def test_files_of_a_killed_write_are_deleted_when_they_are_old_and_not_before(lakehouse, table):
    append(table, 1)
    orphan = table / "part-killed.parquet"
    orphan.write_bytes(b"half")
    assert maintain(lakehouse, table).deleted == 0
    touch(orphan, time.time() - 8 * DAY)
    assert maintain(lakehouse, table).deleted == 1


def test_files_are_kept_back_to_what_the_last_reader_has_yet_to_read(lakehouse, table):
    append(table, 1, 2)
    grow_old(table, days=10)
    append(table, 3)  # version 2, which the job has not read
    grow_old(table, days=30)
    maintain(lakehouse, table)
    grow_old(table, days=8)
    checkpoint(lakehouse, "generation-0001", (2, False), finished=1)
    done = maintain(lakehouse, table)
    assert done.deleted == 0
    assert done.kept_for == "job windows, generation-0001"
    assert timedelta(days=38) < done.retention < timedelta(days=39)


def test_a_reader_that_has_caught_up_holds_nothing_back(lakehouse, table):
    append(table, 1, 2)
    maintain(lakehouse, table)
    checkpoint(lakehouse, "generation-0001", (3, False), finished=1)
    grow_old(table, days=8)
    assert maintain(lakehouse, table).deleted == 2


@pytest.mark.parametrize(("reading", "deleted"), [(True, 0), (False, 2)])
def test_a_reader_within_its_first_snapshot_keeps_that_version_whole(lakehouse, table, reading, deleted):
    append(table, 1, 2)
    if reading:
        checkpoint(lakehouse, "generation-0001", (1, True), finished=1)
    maintain(lakehouse, table)
    grow_old(table, days=60)
    # Removals so long ago are forgotten by a checkpoint of the log: the files look like those of a killed write.
    DeltaTable(str(table)).create_checkpoint()
    for file in table.glob("*.parquet"):
        touch(file, time.time() - 90 * DAY)
    assert maintain(lakehouse, table).deleted == deleted


def test_of_a_job_s_generations_the_live_one_and_newer_ones_count(lakehouse, table):
    append(table, 1)
    checkpoint(lakehouse, "generation-0001", (1, False), finished=1)
    checkpoint(lakehouse, "generation-0002", (5, False), finished=1)
    checkpoint(lakehouse, "generation-0003", (2, True), (3, False), finished=1, live=False)
    assert list(readers(lakehouse, table)) == [
        Reader("job windows, generation-0002", 5),
        Reader("job windows, generation-0003", 2),
    ]


@pytest.mark.parametrize(
    ("ends", "finished", "version"),
    [
        ((), 0, None),  # has not begun: reads the table as it will be
        (((4, False),), 1, 4),
        (((4, False), (9, False)), 2, 9),
        (((4, False), (9, False)), 1, 4),  # the second batch is to be replayed
        (((4, True),), 0, 4),  # the first batch, a part of version 4, is to be replayed
        (((4, False),), 0, 3),  # the first batch, the whole of version 3, is to be replayed
    ],
)
def test_the_first_version_needed_is_where_the_next_batch_begins(lakehouse, table, ends, finished, version):
    append(table, 1)
    checkpoint(lakehouse, "generation-0001", *ends, finished=finished)
    assert [reader.version for reader in readers(lakehouse, table)] == ([] if version is None else [version])


def test_readers_of_other_tables_and_of_a_table_that_was_here_before_hold_nothing_back(lakehouse, table):
    append(table, 1)
    checkpoint(lakehouse, "generation-0001", (0, False), finished=1)
    (lakehouse.events("other")).mkdir()
    append(lakehouse.events("other"), 1)
    assert list(readers(lakehouse, lakehouse.events("other"))) == []


def test_where_it_cannot_be_told_how_far_a_reader_has_come_nothing_is_deleted(lakehouse, table):
    append(table, 1, 2)
    maintain(lakehouse, table)
    grow_old(table, days=60)
    checkpoint(lakehouse, "generation-0001", (1, False), finished=1)
    offset = lakehouse.job("windows") / "generation-0001" / "checkpoint" / "offsets" / "0"
    good = offset.read_text()
    offset.write_text("v9\nsomething else")
    done = maintain(lakehouse, table)
    assert done.deleted == 0
    assert "cannot be told" in (done.not_deleted or "")
    offset.write_text(good)
    DeltaTable(str(table)).create_checkpoint()
    (table / "_delta_log" / f"{1:020d}.json").unlink()
    done = maintain(lakehouse, table)
    assert done.deleted == 0
    assert "whose log entry is gone" in (done.not_deleted or "")


def test_a_streaming_reader_meets_joined_files_once_and_finds_what_it_has_yet_to_read(spark, lakehouse, table):
    job, file_by_file = windows(), RunOptions(max_bytes_per_batch="1b")
    for minute in range(3):
        clicks(("ann", minute)).write_delta(str(table), mode="append")
    run_job(spark, lakehouse, job)
    for minute in (20, 21, 22):
        clicks(("ann", minute)).write_delta(str(table), mode="append")
    grow_old(table, days=30)
    assert maintain(lakehouse, table).files_after == 1
    grow_old(table, days=10)
    # The three files that the job read are replaced by one and 10 days past that; the three that it has not are too.
    kept = maintain(lakehouse, table)
    assert kept.kept_for == "job windows, generation-0001"
    summary = run_job(spark, lakehouse, job, options=file_by_file)
    assert (summary.counts.events, summary.totals.events) == (3, 6)
    assert check_conservation(spark, lakehouse, job).balanced
    assert maintain(lakehouse, table).deleted == 6
    silent = run_job(spark, lakehouse, job)
    assert silent.counts.events == 0
    generation = live_generation(lakehouse, "windows")
    assert generation is not None
    assert list(readers(lakehouse, table)) == [
        Reader("job windows, generation-0001", DeltaTable(str(table)).version() + 1)
    ]
    clicks(("bob", 40)).write_delta(str(table), mode="append")
    assert run_job(spark, lakehouse, job).counts.events == 1
    assert check_conservation(spark, lakehouse, job).balanced
    afresh = run_job(spark, lakehouse, job, mode="full_refresh")
    assert afresh.totals.events == 7
