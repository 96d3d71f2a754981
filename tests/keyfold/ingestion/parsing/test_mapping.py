"""Raw columns become event columns as a stream says, whatever format they came in, and times of declared formats times."""

import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.errors import KeyfoldError
from keyfold.ingestion.parsing.mapping import path_value
from keyfold.ingestion.parsing.time_formats import read_times
from keyfold.storage.disk_path import DiskPath
from keyfold.stream import TIMESTAMP, Source, Stream
from spark_jobs.streams import METRICS, SALES, WEATHER
from tests.keyfold.ingestion.parsing.reading import file_rows

ARRIVED = datetime(2026, 1, 2, tzinfo=UTC)


def test_a_missing_mark_in_a_number_of_json_is_null_too(tmp_path: DiskPath) -> None:
    path = tmp_path / "w.ndjson"
    path.write_text('{"origin":"EWR","time_hour":"2026-01-01T06:00:00Z","temp":"NA","pressure":1000.5}\n')
    (row,) = file_rows(WEATHER, path, ARRIVED)
    assert (row["station_id"], row["temp"], row["pressure"], row["reason"]) == ("EWR", None, 1000.5, None)


def test_the_key_is_the_path_below_the_landing_folder_where_no_column_gives_it(tmp_path: DiskPath) -> None:
    folder = tmp_path / "servers" / "eu"
    folder.mkdir(parents=True)
    path = folder / "web-1.v2.csv.gz"
    path.write_bytes(gzip.compress(b"timestamp,value\n2026-01-01 00:05:00,7\n"))
    (row,) = file_rows(METRICS, path, ARRIVED, tmp_path)
    assert (row["key"], row["value"]) == ("servers/eu/web-1.v2", 7.0)


def test_a_key_column_wins_over_the_path_row_by_row(tmp_path: DiskPath) -> None:
    path = tmp_path / "m.csv"
    path.write_text("key,timestamp,value\ncpu,2026-01-01 00:05:00,7\n,2026-01-01 00:05:00,8\n")
    assert [row["key"] for row in file_rows(METRICS, path, ARRIVED, tmp_path)] == ["cpu", "m"]


@pytest.mark.parametrize(
    ("name", "value"),
    [("a.csv", "a"), ("a.CSV.GZ", "a"), ("b/a.ndjson.gz", "b/a"), ("b/a.parquet", "b/a"), ("b/a.1.json", "b/a.1")],
)
def test_only_the_endings_of_a_format_are_cut_from_a_path(name: str, value: str) -> None:
    assert path_value(DiskPath("/landing") / name, DiskPath("/landing")) == value


def test_the_real_weather_and_sales_are_read_as_another_reader_reads_them(real_data: Path) -> None:
    (weather,) = real_data.glob("weather/*.csv.gz")
    ours = file_rows(WEATHER, weather, ARRIVED)
    observed = duckdb.read_csv(str(weather), na_values="NA", dtype={"pressure": "DOUBLE"})
    theirs = observed.project("origin, time_hour, temp, pressure").fetchall()
    assert [(row["station_id"], row["time"], row["temp"], row["pressure"]) for row in ours] == theirs
    day = real_data / "retail" / "2010-12-01.csv.gz"
    ours = file_rows(SALES, day, ARRIVED)
    sold = duckdb.read_csv(str(day), dtype={"StockCode": "VARCHAR"})
    theirs = sold.project("StockCode, Description, Quantity, UnitPrice").fetchall()
    assert [(row["item"], (row["models"] or [None])[0], row["quantity"], row["price"]) for row in ours] == theirs


MOMENT = datetime(2023, 4, 21, 16, 17, 9, 500_000, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TO_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1}


def stream(shape: str) -> Stream:
    schema = pa.schema([pa.field("at", TIMESTAMP, nullable=False), pa.field("what", pa.string())])
    return Stream("clicks", schema, "at", sources={"at": Source(("when",), time=shape)})


def read(shape, path):
    return [(row["at"], row["reason"]) for row in file_rows(stream(shape), path, ARRIVED)]


@pytest.mark.parametrize(
    ("shape", "value", "moment"),
    [
        ("s", 1682093829.5, MOMENT),
        ("ms", 1682093829500, MOMENT),
        ("us", 1682093829500000, MOMENT),
        ("ns", 1682093829500000000, MOMENT),
        ("%d/%m/%Y %H:%M", "04/03/2023 06:05", datetime(2023, 3, 4, 6, 5, tzinfo=UTC)),
        ("%m/%d/%Y %I:%M %p", "4/3/2023 6:05 PM", datetime(2023, 4, 3, 18, 5, tzinfo=UTC)),
        ("%d/%b/%Y:%H:%M:%S %z", "21/Apr/2023:16:17:09 -0400", datetime(2023, 4, 21, 20, 17, 9, tzinfo=UTC)),
        ("%Y-%m-%d", "2023-04-21", datetime(2023, 4, 21, tzinfo=UTC)),
    ],
)
def test_a_number_or_a_text_is_the_time_that_the_stream_says_in_every_format(tmp_path, shape, value, moment):
    (tmp_path / "a.ndjson").write_text(json.dumps({"when": value, "what": "x"}) + "\n")
    (tmp_path / "a.csv").write_text(f'when,what\n"{value}",x\n')
    pq.write_table(pa.table({"when": [value], "what": ["x"]}), tmp_path / "a.parquet")
    for name in ("a.ndjson", "a.csv", "a.parquet"):
        assert read(shape, tmp_path / name) == [(moment, None)], name


def test_a_time_of_another_shape_goes_to_quarantine_and_is_shown(tmp_path):
    (tmp_path / "a.csv").write_text("when,what\n31/31/2023 06:05,x\n04/03/2023 06:05,x\n")
    ((none, reason), (moment, well)) = read("%d/%m/%Y %H:%M", tmp_path / "a.csv")
    assert none is None
    assert "31/31/2023 06:05" in reason
    assert (moment, well) == (datetime(2023, 3, 4, 6, 5, tzinfo=UTC), None)


def test_a_time_of_parquet_that_is_one_already_stays_as_it_is(tmp_path):
    pq.write_table(pa.table({"when": pa.array([MOMENT], pa.timestamp("ns", "UTC"))}), tmp_path / "a.parquet")
    assert read("ms", tmp_path / "a.parquet") == [(MOMENT, None)]


@given(st.integers(-(10**14), 10**15), st.sampled_from(sorted(TO_UNIT)))
def test_every_count_is_the_time_that_plain_python_makes_of_it(count, unit):
    (time,) = read_times(pl.Series([count // TO_UNIT[unit]]), [unit]).to_list()
    assert time == EPOCH + timedelta(microseconds=count // TO_UNIT[unit] * TO_UNIT[unit])


@pytest.mark.parametrize(("column", "shape"), [("what", "ms"), ("at", "milliseconds")])
def test_a_shape_that_is_none_or_of_no_time_is_refused(column, shape):
    with pytest.raises(KeyfoldError, match=f"the source of {column} says .* '{shape}'"):
        Stream("clicks", stream("ms").schema, "at", sources={column: Source(("when",), time=shape)})
