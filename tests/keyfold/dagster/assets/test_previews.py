"""Previews: rows as text, without what is private."""

from dataclasses import replace
from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from keyfold.dagster.assets.previews import preview, preview_quarantine
from keyfold.privacy import MASK
from spark_jobs.streams import METRICS, SALES

NAME = "Ada Lovelace"


def rows(value: dg.MetadataValue) -> list[dict[str, object]]:
    assert isinstance(value, dg.TableMetadataValue)
    return [dict(record.data) for record in value.records]


def written(path: Path, **columns: list[object]) -> Path:
    texts = {name: pl.String for name, values in columns.items() if not values}
    pl.DataFrame(columns, schema_overrides=texts).write_delta(str(path))
    return path


@pytest.fixture
def quarantine(tmp_path: Path) -> Path:
    return written(
        tmp_path / "quarantine",
        raw=[f'{{"customer": "{NAME}"}}', f"{NAME},,", None],
        file=["a.ndjson", "b.csv", "c.csv.gz"],
        line=[1, 2, None],
        reason=["item is missing", f"quantity is not an integer of 64 bits: {NAME}\n: more", "the file is not gzip"],
    )


def test_markup_in_a_row_is_the_text_of_a_cell(tmp_path):
    evil = "![x](http://127.0.0.1:9/beacon.png) | <script>alert(1)</script>"
    assert rows(preview(written(tmp_path / "t", ride=[evil[:60]], fare=[1.25]))) == [
        {"ride": evil[:60], "fare": "1.25"}
    ]


def test_a_private_column_shows_the_mask_in_every_row(tmp_path):
    table = written(tmp_path / "t", customer=[NAME, None], item=["tea", "milk"])
    assert rows(preview(table, {"customer"})) == [
        {"customer": MASK, "item": "tea"},
        {"customer": MASK, "item": "milk"},
    ]


def test_a_table_of_no_rows_says_so(tmp_path):
    assert preview(written(tmp_path / "t", ride=[]), {"ride"}).value == "no rows"
    assert preview_quarantine(written(tmp_path / "q", raw=[], reason=[]), SALES).value == "no rows"


def test_of_a_stream_with_private_columns_quarantine_shows_where_and_why_and_no_line(quarantine):
    shown = rows(preview_quarantine(quarantine, SALES))
    assert sorted((row["file"], row["line"]) for row in shown) == [("a.ndjson", "1"), ("b.csv", "2"), ("c.csv.gz", "")]
    assert {row["raw"] for row in shown} == {MASK}
    assert {row["reason"] for row in shown} == {
        "item is missing",
        f"quantity is not an integer of 64 bits: {MASK}",
        "the file is not gzip",
    }
    assert NAME not in str(shown)


def test_of_any_other_stream_quarantine_shows_the_lines(quarantine):
    for stream in (METRICS, replace(SALES, private=())):
        assert NAME in str(rows(preview_quarantine(quarantine, stream)))
