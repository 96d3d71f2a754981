"""Rows are added once, and searched in the files that may have them alone."""

import json
import os
from contextlib import nullcontext, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from keyfold.lakehouse import create_table, fail_points
from keyfold.lakehouse.commits import append_files
from keyfold.lakehouse.data_files import write_data_file
from keyfold.lakehouse.reading import scan_table
from keyfold.lakehouse.row_erasure import add_rows, erase_rows, erased_rows, files_with, forget_added
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
def table(tmp_path: Path) -> Path:
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
def test_an_id_is_searched_by_the_statistics_of_files(table: Path, which: str):
    (file,) = files_with(table, WANTED[which])
    assert scan_table(table).filter(WANTED[which]).collect().height > 0
    for other in table.glob("part-*"):
        if other.name != file:
            spoil_values(other)
    assert files_with(table, WANTED[which]) == [file]
    assert erase_rows(table, WANTED[which]) == (2 if " of t" in which else 1)


class Crash(Exception):
    """A process that is killed."""


def crash(point: str) -> None:
    raise Crash(point)


def names(rows: pl.DataFrame) -> list[str]:
    return [f"event {name}" for name in rows["id"]]


def transactions(table: Path) -> int:
    DeltaTable(str(table)).create_checkpoint()
    checkpoint = max((table / "_delta_log").glob("*.checkpoint.parquet"))
    return pl.read_parquet(checkpoint)["txn"].struct.field("appId").drop_nulls().n_unique()


def test_rows_that_are_added_leave_no_name_each_in_the_log(table: Path):
    before = transactions(table)
    for number in range(FILES, FILES + 9):
        rows = rows_of(number, 20)
        add_rows(table, rows, SCHEMA, names(rows))
        forget_added(table, names(rows))
    assert transactions(table) <= before + 2
    assert not (table / "_added.json").exists()
    assert DeltaTable(str(table)).count() == FILES * ROWS + 9 * 20
    assert erased_rows(table) == -9 * 20


@pytest.mark.parametrize("point", ["added: named", "added: committed", None])
def test_rows_are_added_once_wherever_a_call_is_cut_off_and_whatever_the_next_one_adds(
    table: Path, monkeypatch: pytest.MonkeyPatch, point: str | None
):
    rows = rows_of(9, 6)

    def add(chosen: pl.DataFrame, cut_off: str | None = None) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(fail_points, "act", lambda reached: crash(reached) if reached == cut_off else None)
            with nullcontext() if cut_off is None else suppress(Crash):
                add_rows(table, chosen, SCHEMA, names(chosen))

    add(rows[:3], point)
    add(rows[2:5], point)
    add(rows[:3], point)
    add(rows)
    add(rows)
    there = scan_table(table).filter(pl.col("number") >= 9 * ROWS).collect()
    assert there.sort("number").select(rows.columns).equals(rows)
    assert erased_rows(table) == -6


def test_a_record_of_added_rows_of_another_history_is_not_believed(table: Path):
    rows = rows_of(9, 2)
    # The table was restored from before, and the record was not.
    (table / "_added.json").write_text(json.dumps({"1": names(rows)}))
    add_rows(table, rows, SCHEMA, names(rows))
    assert scan_table(table).filter(pl.col("number") >= 9 * ROWS).collect().height == 2
