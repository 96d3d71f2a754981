"""Files of a table are changed once, whoever repeats it, and rows are searched in the files that may have them alone."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from keyfold.errors import Locked
from keyfold.lakehouse import create_table
from keyfold.lakehouse.commits import append_files
from keyfold.lakehouse.data_files import write_data_file
from keyfold.lakehouse.file_changes import (
    FileChange,
    Rows,
    changes_of,
    commit_change,
    erased_rows,
    files_of,
    forget,
    prepare_addition,
    prepare_change,
    rows_at,
    rows_with_positions,
)
from keyfold.lakehouse.reading import scan_table
from keyfold.storage.disk_path import DiskPath
from tests.schemas import schema_of

SCHEMA = schema_of("id string, at time!, number int64, amount float64")
FILES, ROWS = 5, 1000


def rows_of(number: int, count: int = ROWS) -> pl.DataFrame:
    start = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number)
    return pl.DataFrame(
        {
            "id": [f"k{number}-{row:04}" for row in range(count)],
            "at": [start + timedelta(seconds=row) for row in range(count)],
            "number": [number * ROWS + row for row in range(count)],
            "amount": [number + row / ROWS for row in range(count)],
        },
        {"id": pl.String, "at": pl.Datetime("us", "UTC"), "number": pl.Int64, "amount": pl.Float64},
    )


@pytest.fixture
def table(tmp_path: DiskPath) -> DiskPath:
    create_table(tmp_path / "table", SCHEMA)
    for number in range(FILES):
        file = write_data_file(rows_of(number), tmp_path / "table", SCHEMA)
        append_files(tmp_path / "table", [file], "test", number)
    return tmp_path / "table"


def spoil_values(file: Path) -> None:
    """Replace all values of a file by noise, and leave what its footer says of them."""
    footer, content = pq.read_metadata(file), bytearray(file.read_bytes())
    columns = [footer.row_group(0).column(number) for number in range(footer.num_columns)]
    start = min(min(column.data_page_offset, column.dictionary_page_offset or 1 << 62) for column in columns)
    end = start + sum(column.total_compressed_size for column in columns)
    content[start:end] = os.urandom(end - start)
    file.write_bytes(content)


WANTED = {
    "a text": pl.col("id").eq_missing(pl.lit("k3-0007")),
    "a time": pl.col("at").eq_missing(pl.lit(datetime(2026, 1, 4, 0, 0, 7, tzinfo=UTC), pl.Datetime("us", "UTC"))),
    "a number": pl.col("number").eq_missing(pl.lit(3007)),
    "a list of texts": pl.col("id").is_in(["k3-0007", "k3-0009"]),
    "two columns": pl.col("id").eq_missing(pl.lit("k3-0007")) & pl.col("number").eq_missing(pl.lit(3007)),
    "one of two ids": pl.col("number").eq_missing(pl.lit(3007)) | pl.col("number").eq_missing(pl.lit(3500)),
}


@pytest.mark.parametrize("which", WANTED)
def test_rows_are_searched_by_the_statistics_of_files(table: DiskPath, which: str):
    found = rows_with_positions(table, WANTED[which], ["number"])
    assert sorted(found["number"]) == sorted(scan_table(table).filter(WANTED[which]).collect()["number"])
    (file,) = files_of(found)
    for other in table.glob("part-*"):
        if other.name != file:
            spoil_values(other)
    again = rows_with_positions(table, WANTED[which], ["number"])
    assert again.equals(found)
    assert rows_at(table, found).select("number").equals(found.select("number"))


def numbers(table: DiskPath) -> list[int]:
    return sorted(scan_table(table).select("number").collect()["number"])


def without(number: int) -> Rows:
    return lambda rows: rows.filter(pl.col("number") != number)


def erased(table: DiskPath, number: int) -> FileChange:
    rows = rows_with_positions(table, pl.col("number") == number, ())
    return prepare_change(table, files_of(rows), without(number))


def test_a_change_is_committed_once_however_often_it_is_tried(table: DiskPath):
    before = numbers(table)
    change = erased(table, 3007)
    assert (numbers(table), changes_of(table), erased_rows(table)) == (before, 0, 0)
    for _ in range(3):
        commit_change(table, change)
        assert numbers(table) == [number for number in before if number != 3007]
        assert (changes_of(table), erased_rows(table)) == (1, 1)
    addition = prepare_addition(table, rows_of(9, 4), SCHEMA)
    assert len(numbers(table)) == FILES * ROWS - 1
    for late in (addition, change, addition):
        commit_change(table, late)
    assert len(numbers(table)) == len(set(numbers(table))) == FILES * ROWS - 1 + 4
    assert (changes_of(table), erased_rows(table)) == (2, 1 - 4)


def test_batches_that_are_committed_in_between_stay(table: DiskPath):
    change = erased(table, 3007)
    append_files(table, [write_data_file(rows_of(FILES, 5), table, SCHEMA)], "test", FILES)
    commit_change(table, change)
    assert len(numbers(table)) == FILES * ROWS - 1 + 5


def test_a_change_of_files_that_another_process_has_replaced_changes_nothing(table: DiskPath):
    change = erased(table, 3007)
    DeltaTable(str(table)).optimize.compact()
    before = numbers(table)
    with pytest.raises(Locked, match="replaced files"):
        commit_change(table, change)
    assert (numbers(table), changes_of(table), erased_rows(table)) == (before, 0, 0)
    commit_change(table, erased(table, 3007))
    assert numbers(table) == [number for number in before if number != 3007]


def test_a_change_whose_new_file_is_gone_changes_nothing(table: DiskPath):
    change, before = erased(table, 3007), numbers(table)
    (table / change.added[0].path).unlink()
    with pytest.raises(Locked, match="replaced files"):
        commit_change(table, change)
    assert numbers(table) == before


def test_a_file_of_which_no_row_is_left_leaves_none(table: DiskPath):
    rows = rows_with_positions(table, pl.col("number") < ROWS, ())
    change = prepare_change(table, files_of(rows), lambda stored: stored.filter(pl.col("number") >= ROWS))
    assert not change.added
    commit_change(table, change)
    assert numbers(table) == list(range(ROWS, FILES * ROWS))
    assert DeltaTable(str(table)).count() == (FILES - 1) * ROWS


def test_forgetting_deletes_what_was_replaced_and_what_a_call_that_was_cut_off_has_written(table: DiskPath):
    commit_change(table, erased(table, 3007))
    orphan = erased(table, 1003)
    recorded = write_data_file(rows_of(FILES, 5), table, SCHEMA)
    before = numbers(table)
    assert forget(table, {recorded.path}) == 2
    assert not (table / orphan.added[0].path).exists()
    left = {path.name for path in table.glob("part-*")}
    assert left == {Path(path).name for path in DeltaTable(str(table)).file_uris()} | {recorded.path}
    assert numbers(table) == before
