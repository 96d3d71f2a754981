"""Parquet files of HDFS, which Polars does not speak, are read as those of a disk are."""

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from keyfold.lakehouse import parquet
from keyfold.lakehouse.files import new_file
from keyfold.lakehouse.parquet import parquet_file, read_parquet, scan_parquet, scan_rows

ROWS_A_GROUP = 100
START = datetime(2026, 1, 1, tzinfo=UTC)
OLD = pl.DataFrame(
    {
        "id": range(250),
        "at": [START + timedelta(microseconds=number) for number in range(250)],
        "tags": [[str(number)] * (number % 3) for number in range(250)],
        "gone": ["x"] * 250,
    }
)
NEW = OLD.drop("gone").with_columns(pl.col("id") + 250, pl.col("at").cast(pl.Datetime("ns")), new=pl.lit(1.5))
TABLE = pl.Schema({**OLD.drop("gone").schema, "new": pl.Float64})
OPTIONS = {
    "schema": TABLE,
    "missing_columns": "insert",
    "extra_columns": "ignore",
    "cast_options": pl.ScanCastOptions(datetime_cast=["nanosecond-downcast", "convert-timezone"]),
}


@pytest.fixture(scope="module")
def files(hdfs, tmp_path_factory):
    """Two files of one table, on a disk and on HDFS: one lacks a column and has another more, one has other times."""
    folders = tmp_path_factory.mktemp("disk"), hdfs.new_folder()
    for folder in folders:
        for name, frame in (("old", OLD), ("new", NEW)):
            with new_file(folder / name) as file:
                frame.write_parquet(file, row_group_size=ROWS_A_GROUP)
    return [[folder / "old", folder / "new"] for folder in folders]


QUERIES = {
    "all": lambda rows: rows,
    "how many": lambda rows: rows.select(pl.len()),
    "some columns": lambda rows: rows.select("new", "id"),
    "a column that one lacks": lambda rows: rows.select("new"),
    "some rows": lambda rows: rows.filter(pl.col("id") % 97 == 3).select("at"),
    "those of a time": lambda rows: rows.filter(pl.col("at") >= START + timedelta(microseconds=200)),
    "the first": lambda rows: rows.head(120),
    "from the middle": lambda rows: rows.slice(240, 30),
    "the first of some": lambda rows: rows.filter(pl.col("id") > 150).head(120),
    "counted": lambda rows: rows.group_by("new").agg(pl.col("id").sum()).sort("new"),
}


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_of_a_table_s_files_gives_the_same(files, query):
    on_disk, there = (QUERIES[query](scan_parquet(some, **OPTIONS)).collect() for some in files)
    assert_frame_equal(there, on_disk)


@pytest.mark.parametrize(("offset", "rows"), [(0, 250), (0, 1), (99, 2), (100, 100), (150, 1000), (250, 5)])
def test_a_part_of_a_file_is_that_part(files, offset, rows):
    on_disk, there = (scan_rows(some[0], offset, rows) for some in files)
    assert_frame_equal(there.collect(), on_disk.collect())
    assert there.select(pl.len()).collect().item() == on_disk.select(pl.len()).collect().item()
    assert there.collect_schema() == on_disk.collect_schema()


def test_of_a_file_no_more_row_groups_and_columns_are_read_than_are_asked_for(files, monkeypatch):
    read = []
    whole = parquet._group
    monkeypatch.setattr(
        parquet, "_group", lambda file, group, wanted: (read.append((group, *wanted)), whole(file, group, wanted))[1]
    )
    assert scan_rows(files[1][0], 120, 50).select("id").collect().height == 50
    assert read == [(1, "id")]


def test_a_whole_file_and_its_footer_are_read(files):
    assert_frame_equal(read_parquet(files[1][0]), OLD)
    assert_frame_equal(read_parquet(files[1][0], columns=["tags"]), OLD.select("tags"))
    with parquet_file(files[1][0]) as file:
        assert file.metadata.num_row_groups == 3
