"""Previews: rows as text, without what is private."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import dagster as dg
import polars as pl
import pytest

from keyfold.dagster.assets.previews import preview, quarantine_metadata
from keyfold.privacy import MASK
from keyfold.storage.disk_path import DiskPath
from spark_jobs.streams import METRICS, SALES

NAME = "Ada Lovelace"


def rows(value: dg.MetadataValue) -> list[dict[str, object]]:
    assert isinstance(value, dg.TableMetadataValue)
    return [dict(record.data) for record in value.records]


def written(path: DiskPath, **columns: list[object]) -> DiskPath:
    texts = {name: pl.String for name, values in columns.items() if not values}
    pl.DataFrame(columns, schema_overrides=texts).write_delta(str(path))
    return path


@pytest.fixture
def quarantine(tmp_path: DiskPath) -> DiskPath:
    return written(
        tmp_path / "quarantine",
        raw=[f'{{"customer": "{NAME}"}}', f"{NAME},,", None],
        file=["a.ndjson", "b.csv", "c.csv.gz"],
        line=[1, 2, None],
        batch=[0, 1, 1],
        reason=["item is missing", f"quantity is not an integer of 64 bits: {NAME}\n: more", "the file is not gzip"],
    )


def test_markup_in_a_row_is_the_text_of_a_cell(tmp_path):
    evil = "![x](//a.b/c)|<b>"
    assert rows(preview(written(tmp_path / "t", ride=[evil], fare=[1.25]))) == [{"ride": evil, "fare": "1.25"}]


def test_a_time_is_shown_to_the_second_in_utc_and_a_long_id_is_cut(tmp_path):
    moment = datetime(2026, 1, 31, 12, 30, 15, 987654, tzinfo=UTC)
    table = written(tmp_path / "t", ride=["0123456789abcdef0123456789"], at=[moment])
    assert rows(preview(table)) == [{"ride": "0123456789abcdef012…", "at": "2026\u201101\u201131\u00a012:30:15"}]


def test_an_id_that_is_copied_from_a_page_is_the_id(tmp_path):
    assert rows(preview(written(tmp_path / "t", ride=["e3-f4 g5"]))) == [{"ride": "e3-f4 g5"}]


def test_a_private_column_shows_the_mask_in_every_row(tmp_path):
    table = written(tmp_path / "t", customer=[NAME, None], item=["tea", "milk"])
    assert rows(preview(table, {"customer"})) == [
        {"customer": MASK, "item": "tea"},
        {"customer": MASK, "item": "milk"},
    ]


def test_a_table_of_no_rows_says_so(tmp_path):
    assert preview(written(tmp_path / "t", ride=[]), {"ride"}).value == "no rows"
    empty = quarantine_metadata(written(tmp_path / "q", raw=[], file=[], line=[], batch=[], reason=[]), SALES)
    assert [one.value for one in empty.values()] == ["no rows"] * 2


def test_of_a_stream_with_private_columns_quarantine_shows_where_and_why_and_no_line(quarantine):
    found = quarantine_metadata(quarantine, SALES)
    shown = rows(found["preview"])
    assert list(shown[0]) == ["reason", "file", "line", "raw"]
    assert sorted((row["file"], row["line"]) for row in shown) == [("a.ndjson", "1"), ("b.csv", "2"), ("c.csv.gz", "")]
    assert {row["raw"] for row in shown} == {MASK}
    assert {row["reason"] for row in shown} == {
        "item is missing",
        f"quantity is not an integer of 64 bits: {MASK}",
        "the file is not gzip",
    }
    assert NAME not in str(found)


def test_of_any_other_stream_quarantine_shows_the_lines(quarantine):
    for stream in (METRICS, replace(SALES, private=())):
        assert NAME in str(rows(quarantine_metadata(quarantine, stream)["preview"]))


def test_rows_are_counted_by_reason_and_the_newest_are_shown(tmp_path):
    reasons: list[Any] = [
        "amount is not a number: x1",
        "amount is not a number: x2",
        *["at is missing"] * 5,
        "amount is not a number: x3",
    ]
    table = written(
        tmp_path / "q",
        raw=[f"line {at}" for at in range(8)],
        file=["/lake/landing/sales/2026/a.ndjson"] * 8,
        line=list(range(8)),
        batch=[*[0] * 7, 1],
        reason=reasons,
    )
    found = quarantine_metadata(table, replace(SALES, private=()))
    assert rows(found["reasons"]) == [
        {"reason": "at is missing", "rows": "5"},
        {"reason": "amount is not a number", "rows": "3"},
    ]
    first = rows(found["preview"])[0]
    assert first == {"reason": reasons[-1], "file": "a.ndjson", "line": "7", "raw": "line 7"}
