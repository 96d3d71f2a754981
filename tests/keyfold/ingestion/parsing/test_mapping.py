"""Raw columns become event columns as a stream says, whatever format they came in."""

import gzip
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from keyfold.ingestion.parsing.mapping import path_value
from keyfold.stream import Stream
from spark_jobs.streams import METRICS, SALES, WEATHER
from tests.keyfold.ingestion.parsing.reading import file_rows

ARRIVED = datetime(2026, 1, 2, tzinfo=UTC)


def parsed(stream: Stream, path: Path, landing: Path | None = None) -> list[dict[str, Any]]:
    return file_rows(stream, path, ARRIVED, landing)


def test_a_missing_mark_in_a_number_of_json_is_null_too(tmp_path: Path) -> None:
    path = tmp_path / "w.ndjson"
    path.write_text('{"origin":"EWR","time_hour":"2026-01-01T06:00:00Z","temp":"NA","pressure":1000.5}\n')
    (row,) = parsed(WEATHER, path)
    assert (row["station_id"], row["temp"], row["pressure"], row["reason"]) == ("EWR", None, 1000.5, None)


def test_the_key_is_the_path_below_the_landing_folder_where_no_column_gives_it(tmp_path: Path) -> None:
    folder = tmp_path / "servers" / "eu"
    folder.mkdir(parents=True)
    path = folder / "web-1.v2.csv.gz"
    path.write_bytes(gzip.compress(b"timestamp,value\n2026-01-01 00:05:00,7\n"))
    (row,) = parsed(METRICS, path, tmp_path)
    assert (row["key"], row["value"]) == ("servers/eu/web-1.v2", 7.0)


def test_a_key_column_wins_over_the_path_row_by_row(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text("key,timestamp,value\ncpu,2026-01-01 00:05:00,7\n,2026-01-01 00:05:00,8\n")
    assert [row["key"] for row in parsed(METRICS, path, tmp_path)] == ["cpu", "m"]


@pytest.mark.parametrize(
    ("name", "value"),
    [("a.csv", "a"), ("a.CSV.GZ", "a"), ("b/a.ndjson.gz", "b/a"), ("b/a.parquet", "b/a"), ("b/a.1.json", "b/a.1")],
)
def test_only_the_endings_of_a_format_are_cut_from_a_path(name: str, value: str) -> None:
    assert path_value(Path("/landing") / name, Path("/landing")) == value


def test_the_real_weather_and_sales_are_read_as_another_reader_reads_them(real_data: Path) -> None:
    (weather,) = real_data.glob("weather/*.csv.gz")
    ours = parsed(WEATHER, weather)
    observed = duckdb.read_csv(str(weather), na_values="NA", dtype={"pressure": "DOUBLE"})
    theirs = observed.project("origin, time_hour, temp, pressure").fetchall()
    assert [(row["station_id"], row["time"], row["temp"], row["pressure"]) for row in ours] == theirs
    day = real_data / "retail" / "2010-12-01.csv.gz"
    ours = parsed(SALES, day)
    sold = duckdb.read_csv(str(day), dtype={"StockCode": "VARCHAR"})
    theirs = sold.project("StockCode, Description, Quantity, UnitPrice").fetchall()
    assert [(row["item"], (row["models"] or [None])[0], row["quantity"], row["price"]) for row in ours] == theirs
