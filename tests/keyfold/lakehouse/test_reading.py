"""Tables are read without Spark, wherever they lie."""

import polars as pl
import pytest
from deltalake import write_deltalake

from keyfold.lakehouse.reading import count_rows, data_file_paths, read_batches, read_parquet, scan_table


@pytest.fixture(params=["plain", "my home"])
def table(tmp_path, request):
    """A table of two files, whose path holds what a URL escapes; the second file has a column more."""
    path = tmp_path / request.param / "table"
    path.parent.mkdir()
    pl.DataFrame({"user": ["ann", "bob"]}).write_delta(str(path))
    more = pl.DataFrame({"user": ["eve"], "clicks": [3]})
    write_deltalake(str(path), more.to_arrow(), mode="append", schema_mode="merge")
    return path


def test_all_rows_are_found_in_every_way(table):
    assert count_rows(table) == 3
    assert sorted(row for batch in read_batches(table) for row in batch.select("user").rows()) == [
        ("ann",), ("bob",), ("eve",)
    ]  # fmt: skip
    assert sorted(pl.concat([read_parquet(path, columns=["user"]) for path in data_file_paths(table)])["user"]) == [
        "ann", "bob", "eve"
    ]  # fmt: skip


def test_a_query_reads_columns_that_a_file_is_too_old_for_as_null(table):
    rows = scan_table(table).filter(pl.col("user") != "bob").select("user", "clicks").collect()
    assert sorted(rows.rows()) == [("ann", None), ("eve", 3)]
