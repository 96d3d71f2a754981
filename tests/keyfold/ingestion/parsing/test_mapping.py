"""Raw columns become event columns as a stream says, whatever format they came in."""

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keyfold.ingestion.parsing.mapping import path_value
from keyfold.stream import TIMESTAMP, Source, Stream
from spark_jobs.streams import METRICS, SALES, WEATHER
from tests.keyfold.ingestion.parsing.reading import file_rows

ARRIVED = datetime(2026, 1, 2, tzinfo=UTC)


def parsed(stream: Stream, path: Path, landing: Path | None = None) -> list[dict[str, Any]]:
    return file_rows(stream, path, ARRIVED, landing)


def test_columns_are_renamed_and_missing_marks_are_null_in_csv(tmp_path: Path) -> None:
    path = tmp_path / "w.csv"
    path.write_text(
        "origin,temp,pressure,time_hour\nEWR,NA,1012.5,2026-01-01T06:00:00Z\nJFK,39.02, NA ,2026-01-01T06:00:00Z\n"
    )
    first, second = parsed(WEATHER, path)
    assert (first["station_id"], first["temp"], first["pressure"]) == ("EWR", None, 1012.5)
    assert first["time"] == datetime(2026, 1, 1, 6, tzinfo=UTC)
    assert (second["station_id"], second["temp"], second["pressure"]) == ("JFK", 39.02, None)


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


def test_a_sale_is_read_from_the_retail_layout_and_from_messages_alike(tmp_path: Path) -> None:
    retail, messages = tmp_path / "r.csv", tmp_path / "m.ndjson"
    retail.write_text(
        "InvoiceNo,StockCode,Description,Quantity,InvoiceDate,UnitPrice,CustomerID,Country\n"
        '536365,85123A,"HOLDER, WHITE",-6,2010-12-01 08:26:00,2.55,,United Kingdom\n'
    )
    lines = [
        {"item": "Watch", "quantity": 2, "model": ["Series 7", "Series 8"], "time": "2026-01-01T00:00:00Z"},
        {"item": "Watch", "quantity": 1, "model": "Series 7", "time": "2026-01-01T00:00:00Z"},
        {"item": "Watch", "quantity": 1, "time": "2026-01-01T00:00:00Z"},
        {"item": "Watch", "quantity": 1, "model": [7], "time": "2026-01-01T00:00:00Z"},
    ]
    messages.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (sale,) = parsed(SALES, retail)
    assert (sale["item"], sale["quantity"], sale["models"]) == ("85123A", -6, ["HOLDER, WHITE"])
    assert (sale["price"], sale["customer"], sale["time"]) == (2.55, None, datetime(2010, 12, 1, 8, 26, tzinfo=UTC))
    both, one, none, wrong = parsed(SALES, messages)
    assert [row["models"] for row in (both, one, none)] == [["Series 7", "Series 8"], ["Series 7"], None]
    assert wrong["reason"] == "model is not a text or a list of texts: [7]"


def test_a_stream_of_another_layout_is_a_value_and_no_code(tmp_path: Path) -> None:
    stream = Stream(
        name="readings",
        schema=pa.schema([("meter", pa.string()), ("at", TIMESTAMP), ("kwh", pa.float64()), ("country", pa.string())]),
        event_time="at",
        sources={
            "meter": Source(("MeterNo", "id")),
            "kwh": Source(("KWh", "reading")),
            "country": Source("Country"),
        },
        missing=("-", "n/a"),
    )
    path = tmp_path / "r.parquet"
    pq.write_table(
        pa.table(
            {
                "id": ["m1", "m2"],
                "MeterNo": [None, "M-2"],
                "at": ["2026-01-01T00:00:00Z"] * 2,
                "KWh": ["-", "2.5"],
                "reading": [1.5, 9.0],
                "Country": ["n/a", "FR"],
            }
        ),
        path,
    )
    rows = [(row["meter"], row["kwh"], row["country"]) for row in parsed(stream, path)]
    assert rows == [("m1", 1.5, None), ("M-2", 2.5, "FR")]


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
