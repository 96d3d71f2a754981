"""A table read by the files that its log names has the rows and columns that Delta's own reader finds."""

from datetime import UTC, datetime

import polars as pl
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


def test_rows_and_types_are_those_of_delta_s_reader_whatever_the_table_went_through(spark, tmp_path):
    path = tmp_path / "ä b+c#d{e,f}*?"
    write_deltalake(str(path), ROWS.to_arrow(), mode="append")
    write_deltalake(str(path), ROWS.head(1).to_arrow(), mode="append")
    assert assert_same(spark, path) == 4
    before, more = table_frame(spark, path), ROWS.with_columns(tip=pl.lit(2.5))
    write_deltalake(str(path), more.to_arrow(), mode="append", schema_mode="merge")
    assert assert_same(spark, path) == 7
    assert table_frame(spark, path).where("tip IS NULL").count() == before.count() == 4, "a frame is of its moment"
    DeltaTable(str(path)).delete("ride = 'a'")
    assert assert_same(spark, path) == 4
    DeltaTable(str(path)).delete()
    assert assert_same(spark, path) == 0


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
