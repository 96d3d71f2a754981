"""A table read by the files that its log names has the rows and columns that Delta's own reader finds."""

from datetime import UTC, datetime

import polars as pl
import pytest
from deltalake import DeltaTable, write_deltalake

from keyfold.lakehouse.frames import table_frame

ROWS = pl.DataFrame(
    {
        "ride": ["a", "b", "c"],
        "fare": [1.5, None, 3.0],
        "at": [datetime(2026, 1, day, 12, 30, 15, 123456, tzinfo=UTC) for day in (1, 2, 3)],
        "points": [[1, 2], [], None],
    }
)


def by_delta(spark, path):
    return spark.read.format("delta").load(str(path))


def assert_same(spark, path):
    ours, theirs = table_frame(spark, path), by_delta(spark, path)
    assert [(one.name, one.dataType) for one in ours.schema] == [(one.name, one.dataType) for one in theirs.schema]
    assert sorted(map(str, ours.collect())) == sorted(map(str, theirs.collect()))
    return ours.count()


@pytest.mark.parametrize("name", ["table", "ä b+c#d{e,f}*?"])
def test_rows_and_types_are_those_of_delta_s_reader_wherever_the_table_lies(spark, tmp_path, name):
    path = tmp_path / name
    write_deltalake(str(path), ROWS.to_arrow(), mode="append")
    write_deltalake(str(path), ROWS.head(1).to_arrow(), mode="append")
    assert assert_same(spark, path) == 4


def test_what_was_deleted_or_written_over_is_not_there(spark, tmp_path):
    write_deltalake(str(tmp_path / "table"), ROWS.to_arrow())
    DeltaTable(str(tmp_path / "table")).delete("ride = 'a'")
    assert assert_same(spark, tmp_path / "table") == 2
    DeltaTable(str(tmp_path / "table")).delete()
    assert assert_same(spark, tmp_path / "table") == 0


def test_columns_that_came_later_are_null_in_older_files(spark, tmp_path):
    path = tmp_path / "table"
    write_deltalake(str(path), ROWS.to_arrow())
    more = ROWS.with_columns(tip=pl.lit(2.5))
    write_deltalake(str(path), more.to_arrow(), mode="append", schema_mode="merge")
    assert assert_same(spark, path) == 6
    assert table_frame(spark, path).where("tip IS NULL").count() == 3


def test_partitioned_tables_keep_their_partition_columns(spark, tmp_path):
    write_deltalake(str(tmp_path / "table"), ROWS.to_arrow(), partition_by=["ride"])
    assert assert_same(spark, tmp_path / "table") == 3


def test_rows_that_only_a_deletion_vector_deletes_are_not_there(spark, tmp_path):
    path = tmp_path / "table"
    rows = spark.createDataFrame([(number,) for number in range(100)], "number long").coalesce(1)
    rows.write.format("delta").option("delta.enableDeletionVectors", "true").save(str(path))
    spark.sql(f"DELETE FROM delta.`{path}` WHERE number = 7")  # noqa: S608
    assert DeltaTable(str(path)).protocol().min_reader_version > 1
    assert assert_same(spark, path) == 99


def test_a_frame_keeps_the_rows_of_the_moment_it_was_made(spark, tmp_path):
    path = tmp_path / "table"
    write_deltalake(str(path), ROWS.to_arrow())
    before = table_frame(spark, path)
    write_deltalake(str(path), ROWS.to_arrow(), mode="append")
    assert (before.count(), table_frame(spark, path).count()) == (3, 6)
