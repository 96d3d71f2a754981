"""Rows are merged into a table as a dictionary takes them, whatever files they lie in, and whatever happens on the way."""

import threading
from datetime import date, timedelta
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from keyfold.errors import KeyfoldError
from keyfold.keyed.rows.codec import polars_schema
from keyfold.lakehouse import fail_points, merging
from keyfold.lakehouse.commits import append_files, committed_batch
from keyfold.lakehouse.data_files import write_data_file
from keyfold.lakehouse.log_changes import RowsChangedError, changes_since
from keyfold.lakehouse.merging import merge_files
from keyfold.lakehouse.positions import position_at
from keyfold.lakehouse.reading import scan_files, scan_table
from keyfold.storage.place import to_place
from tests.delta_features import with_feature
from tests.keyfold.lakehouse.merged_table import (
    APPLICATION,
    LOCAL,
    VALUES,
    Rows,
    Table,
    merge_after_a_full_disk,
    merge_again,
    value,
)
from tests.shop import START


@pytest.fixture(params=["on a disk", "in a bucket"])
def place(request, tmp_path):
    """Where a table is to be."""
    if request.param == "on a disk":
        return tmp_path / "a table"
    return to_place(f"s3a://{request.getfixturevalue('bucket')}/a table")


@pytest.fixture
def table(place):
    """A table with two rows of a key each in two files, by batches 0 and 1."""
    table = Table(place, pa.schema([("user", pa.string()), *VALUES]))
    table.take({("ann",): value(1), ("bob",): value(2)}, 0)
    append_files(place, [write_data_file(frame_of(table, {("eve",): value(3)}), place, table.schema)], APPLICATION, 1)
    table.expected[("eve",)] = value(3)
    return table


def frame_of(table: Table, rows: Rows) -> pl.DataFrame:
    return pl.DataFrame([(*key, *value) for key, value in rows.items()], polars_schema(table.schema), orient="row")


def test_only_files_with_rows_of_the_keys_are_written_anew(table):
    before = table.files()
    table.take({("eve",): value(4)}, 2)
    table.check()
    assert len(before & table.files()) == 1
    kept = table.files()
    table.take({("new",): value(5)}, 3)
    table.check()
    assert table.files() > kept, "what is new alone is appended"


def test_files_whose_span_of_keys_the_log_tells_are_not_even_opened(tmp_path):
    table = Table(tmp_path / "t", pa.schema([("hour", pa.timestamp("us", tz="UTC")), *VALUES]))
    for batch in range(3):
        table.take({(START + timedelta(hours=batch),): value(batch)}, batch)
    kept = DeltaTable(str(table.path)).file_uris()
    for path in kept[1:]:
        Path(path).rename(f"{path}.gone")
    (hour,) = {row[0] for row in pl.read_parquet(kept[0]).rows()}
    table.take({(hour,): value(9)}, 3)
    for path in kept[1:]:
        Path(f"{path}.gone").rename(path)
    table.check()


def test_a_log_that_tells_times_in_whole_milliseconds_hides_no_row(tmp_path):
    table = Table(tmp_path / "t", pa.schema([("moment", pa.timestamp("us", tz="UTC")), ("count", pa.int64())]))
    (moment,) = row = (START + timedelta(microseconds=1999),)
    file = write_data_file(frame_of(table, {row: (1,)}), table.path, table.schema)
    cut = {"moment": (moment - timedelta(microseconds=999)).isoformat()}
    append_files(table.path, [file.model_copy(update={"first": cut, "last": cut})], APPLICATION, 0)
    table.take({row: (2,)}, 1)
    assert scan_table(table.path).collect().rows() == [(moment, 2)]


def test_who_reads_what_comes_to_a_table_is_told_of_rows_that_changed_and_given_those_that_are_new(table):
    position = position_at(table.path, DeltaTable(str(table.path)).version())
    table.take({("new",): value(5), ("newer",): value(6)}, 2)
    changes = changes_since(table.path, position, "at")
    assert sum(file.rows for file in changes.files) == 2
    table.take({("ann",): value(7)}, 3)
    with pytest.raises(RowsChangedError):
        changes_since(table.path, position, "at")


def test_a_batch_is_taken_once_however_often_it_is_merged(table):
    files = table.staged({("ann",): value(4), ("new",): value(5)})
    for _ in range(3):
        table.merge(files, 2)
    table.expected |= {("ann",): value(4), ("new",): value(5)}
    table.check()
    version = DeltaTable(str(table.path)).version()
    table.merge(table.staged({("ann",): value(9)}), 1)
    table.merge([], 7)
    assert DeltaTable(str(table.path)).version() == version
    assert committed_batch(table.path, APPLICATION) == 2


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_disk_that_fails_at_any_of_the_files_leaves_the_table_as_it_was(table, monkeypatch, count):
    rows = {("ann",): value(4), ("eve",): value(5), ("bob",): value(6), ("new",): value(7)}
    with monkeypatch.context() as patch:
        patch.setattr(merging, "_TOGETHER", 0)
        merge_after_a_full_disk(table, rows, table.staged(rows, 3), "write_rows", count)


def test_a_file_of_the_table_that_is_gone_is_told_as_gone_and_named(table):
    (gone,) = [path for path in table.files() if scan_files(table.path, [table.path / path]).collect().height == 2]
    (table.path / gone).unlink()
    with pytest.raises(FileNotFoundError, match=gone):
        table.take({("ann",): value(4)}, 2)
    assert committed_batch(table.path, APPLICATION) == 1


def test_of_two_who_merge_the_same_batch_at_once_one_commit_counts_and_both_go_on(table, monkeypatch):
    rows = {("ann",): value(4), ("new",): value(5)}
    files, both = table.staged(rows, 2), threading.Barrier(2)
    monkeypatch.setattr(fail_points, "act", lambda _: both.wait(60))
    faults = []

    def merge():
        try:
            table.merge(files, 2)
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=merge) for _ in range(2)]
    version = DeltaTable(str(table.path)).version()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    table.expected |= rows
    table.check()
    assert DeltaTable(str(table.path)).version() == version + 1


@pytest.mark.parametrize("how", ["a row is appended", "files are joined", "another merges"])
def test_whoever_else_commits_meanwhile_the_merge_is_refused_and_can_be_done_again(table, monkeypatch, how):
    def act(_):
        monkeypatch.setattr(fail_points, "act", lambda _: None)
        if how == "a row is appended":
            rows = {("new",): value(8)}
            append_files(table.path, [write_data_file(frame_of(table, rows), table.path, table.schema)], "other", 0)
            table.expected |= rows
        elif how == "files are joined":
            DeltaTable(str(table.path)).optimize.compact()
        else:
            merge_files(LOCAL, table.path, table.staged({("ann",): value(9)}), table.key, "other", 0)
            table.expected[("ann",)] = value(9)

    rows = {("bob",): value(4), ("new",): value(5)}
    files = table.staged(rows)
    monkeypatch.setattr(fail_points, "act", act)
    with pytest.raises(KeyfoldError, match="another process has written to it at the same time, and batch 2 was not"):
        table.merge(files, 2)
    merge_again(table, rows, files)


def test_two_rows_of_one_key_in_a_batch_are_refused_without_a_word_of_their_values(table):
    files = table.staged({("secret name",): value(4)}) + table.staged({("secret name",): value(5)})
    with pytest.raises(KeyfoldError, match=r"batch 2 has several rows of one key \(user\)") as told:
        table.merge(files, 2)
    assert "secret" not in str(told.value)
    table.check()


def test_what_a_table_is_told_to_be_stays_so(table):
    before = DeltaTable(str(table.path))
    table.take({("ann",): value(4), ("new",): value(5)}, 2)
    after = DeltaTable(str(table.path))
    assert after.metadata().configuration == before.metadata().configuration
    assert after.metadata().id == before.metadata().id
    assert str(after.protocol()) == str(before.protocol())
    assert after.schema() == before.schema()


@pytest.mark.parametrize(
    ("properties", "feature"),
    [
        ({"delta.enableChangeDataFeed": "true"}, "changeDataFeed"),
        ({"delta.enableDeletionVectors": "true"}, "deletionVectors"),
        ({"delta.columnMapping.mode": "name"}, "columnMapping"),
    ],
)
def test_a_table_of_which_files_are_not_all_there_is_to_rows_is_refused(tmp_path, properties, feature):
    table = Table(tmp_path / "t", pa.schema([("user", pa.string()), ("count", pa.int64())]))
    table.take({("ann",): (1,)}, 0)
    with_feature(table.path, properties, feature)
    with pytest.raises(KeyfoldError, match=f"has {feature}; Keyfold cannot merge rows into such a table"):
        table.take({("ann",): (2,)}, 1)


def test_a_partitioned_table_is_refused(tmp_path):
    schema = pa.schema([("user", pa.string()), *VALUES])
    DeltaTable.create(str(tmp_path / "t"), schema, partition_by=["user"])
    table = Table(tmp_path / "t", schema)
    with pytest.raises(KeyfoldError, match="has partitions; Keyfold cannot merge rows into such a table"):
        table.take({("ann",): value(2)}, 1)


def test_workers_write_what_is_much_and_tell_of_a_disk_that_fails(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(merging, "_TOGETHER", 0)
    table = Table(tmp_path / "t", pa.schema([("user", pa.string()), ("day", pa.date32()), *VALUES]))
    days = [date(2026, 1, day) for day in range(1, 5)]
    table.take({(f"u{at}", day): value(at) for at in range(10) for day in days}, 0, 4, spark)
    table.take({(f"u{at}", day): value(-at) for at in range(5, 15) for day in days[1:]}, 1, 3, spark)
    table.check()
    files = table.staged({("u1", days[0]): value(7)})
    (table.path / files[0].path).rename(tmp_path / "aside")
    with pytest.raises(OSError, match=r"part-\w+\.parquet"):
        table.merge(files, 2, spark)
    table.check()
