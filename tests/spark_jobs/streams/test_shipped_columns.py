"""What vehicles and weather stations may say besides what they always said; files from before, which do not, are read too."""

import gzip
import json
from datetime import UTC, datetime

import pytest

from keyfold.ingestion.landing import find_drift
from spark_jobs.streams import TELEMETRY, WEATHER
from tests.keyfold.ingestion.parsing.reading import file_rows

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
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
    assert find_drift(TELEMETRY, [tmp_path / "points.ndjson"]) == {}


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
    assert find_drift(WEATHER, [path]) == {}
