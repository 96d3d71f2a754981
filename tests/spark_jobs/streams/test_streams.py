"""Streams are modules of their package; a stream says nothing of columns that it does not have, and reads files from before."""

import gzip
import json
from dataclasses import replace
from importlib import import_module

import pyarrow as pa
import pytest

import spark_jobs.streams
from keyfold.columns import column, describe, lineage_of
from keyfold.discovery import declarations, import_modules
from keyfold.errors import KeyfoldError
from keyfold.ingestion.drift import find_drift
from keyfold.storage.disk_path import DiskPath
from keyfold.stream import INGESTED_AT, TIMESTAMP, Stream
from spark_jobs.streams import METRICS, RIDE_POINTS, SALES, STREAMS, TELEMETRY, WEATHER
from tests.keyfold.ingestion.parsing.reading import file_rows
from tests.shop import NOON

CLICKS = Stream(
    name="clicks",
    schema=pa.schema([column("user", pa.string(), "Who clicked"), column("time", TIMESTAMP, "When (UTC)")]),
    event_time="time",
)

PARKING = """
import pyarrow as pa
from keyfold.columns import column
from keyfold.stream import TIMESTAMP, Stream

STREAM = Stream(
    name="parking",
    schema=pa.schema([column("plate", pa.string(), "Of the car"), column("at", TIMESTAMP, "When it came (UTC)")]),
    event_time="at",
    private=("plate",),
)
"""


def test_the_shipped_streams_stand_in_the_order_of_the_pages():
    assert list(STREAMS.values())[:5] == [RIDE_POINTS, WEATHER, METRICS, TELEMETRY, SALES]


def test_each_stream_is_the_one_of_the_module_of_its_name():
    for name, stream in STREAMS.items():
        assert import_module(f"spark_jobs.streams.{name}").STREAM is stream
        assert stream.name == name


def test_a_file_that_is_put_there_is_a_stream(tmp_path, monkeypatch):
    (tmp_path / "parking.py").write_text(PARKING)
    monkeypatch.setattr(spark_jobs.streams, "__path__", [*spark_jobs.streams.__path__, str(tmp_path)])
    found = declarations(import_modules("spark_jobs.streams"), Stream)
    assert found["parking"].private == ("plate",)
    assert found.keys() - STREAMS.keys() == {"parking"}


def test_every_event_table_says_when_its_events_arrived_and_no_stream_can_take_the_name():
    for stream in STREAMS.values():
        arrival = stream.event_schema.field(-1)
        assert (arrival.name, arrival.type, arrival.nullable) == (INGESTED_AT, TIMESTAMP, False)
        assert describe(arrival)
    with pytest.raises(KeyfoldError, match="ingested_at, a name that Keyfold needs"):
        replace(CLICKS, schema=CLICKS.schema.append(pa.field(INGESTED_AT, TIMESTAMP)))


@pytest.mark.parametrize("name", STREAMS)
def test_every_stream_says_what_it_is_and_what_its_columns_mean(name):
    stream = STREAMS[name]
    assert stream.description
    assert all(describe(field) for field in stream.schema)
    assert not any(lineage_of(field) for field in stream.schema)


def test_who_bought_is_private():
    assert SALES.private == ("customer",)


POINT = {"vehicle_id": "bus-7", "time": "2026-01-01T11:00:00Z", "latitude": 52.5, "longitude": 13.4, "speed": 50.0}


def points(tmp_path, *more):
    path = tmp_path / "points.ndjson"
    path.write_text("".join(json.dumps({**POINT, **one}) + "\n" for one in more))
    return file_rows(TELEMETRY, path, NOON)


def test_a_vehicle_tells_how_hard_it_brakes_where_it_heads_and_how_hot_it_is(tmp_path):
    (row,) = points(tmp_path, {"acceleration": -6.25, "bearing": 359.9, "engine_temperature": 96})
    assert (row["reason"], row["acceleration"], row["bearing"], row["engine_temperature"]) == (None, -6.25, 359.9, 96.0)


def test_a_vehicle_that_tells_none_of_these_is_read_as_before(tmp_path):
    (row,) = points(tmp_path, {})
    assert row["reason"] is None
    assert [row[name] for name in ("fuel_level", "acceleration", "bearing", "engine_temperature")] == [None] * 4
    assert find_drift(TELEMETRY, [tmp_path / "points.ndjson"]).unknown == {}


@pytest.mark.parametrize(
    ("column", "edge", "beyond"),
    [
        ("acceleration", -100.0, -100.1),
        ("acceleration", 100.0, 100.1),
        ("bearing", 0.0, -0.1),
        ("bearing", 360.0, 360.1),
        ("engine_temperature", -90.0, -90.1),
        ("engine_temperature", 300.0, 300.1),
    ],
)
def test_what_cannot_be_is_rejected_for_its_own_reason(tmp_path, column, edge, beyond):
    good, bad = points(tmp_path, {column: edge}, {column: beyond})
    assert (good["reason"], good[column]) == (None, edge)
    assert bad["reason"].startswith(f"{column} is outside")


def test_a_reading_keeps_its_location_and_one_without_has_none(tmp_path):
    path = tmp_path / "readings.csv"
    path.write_text(
        "origin,temp,time_hour,location\nJFK,40.5,2026-01-01T11:00:00Z,Queens NY\nEWR,41,2026-01-01T11:00:00Z,NA\n"
    )
    assert [(row["station_id"], row["location"]) for row in file_rows(WEATHER, path, NOON)] == [
        ("JFK", "Queens NY"),
        ("EWR", None),
    ]


def test_the_readings_of_new_york_s_airports_name_no_location_and_are_read_as_before(real_data):
    path = sorted((real_data / "weather").glob("*.csv.gz"))[0]
    rows = file_rows(WEATHER, path, NOON)
    assert len(rows) == gzip.decompress(path.read_bytes()).count(b"\n") - 1
    assert {(row["reason"], row["location"]) for row in rows} == {(None, None)}
    assert find_drift(WEATHER, [DiskPath(path)]).unknown == {}
