"""Drift: what files have and their stream does not know, in objects and lists too."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keyfold.ingestion.landing import find_drift
from keyfold.stream import TIMESTAMP, Source, Stream

SCHEMA = pa.schema(
    [
        pa.field("device", pa.int64(), nullable=False),
        pa.field("value", pa.float64(), nullable=False),
        ("place", pa.int64()),
        ("first", pa.string()),
        ("kept", pa.string()),
        pa.field("time", TIMESTAMP, nullable=False),
    ]
)
SOURCES = {
    "device": Source("device.id"),
    "value": Source("readings[].value"),
    "place": Source(place=True),
    "first": Source("tags[0]"),
    "kept": Source("extra", json=True),
}
STREAM = Stream("drifting", SCHEMA, "time", sources=SOURCES, ignored=("device.color", "noise"))
LINE = {
    "device": {"id": 1, "color": {"r": 1}},
    "readings": [{"value": 1}],
    "tags": ["a", "b"],
    "extra": {"any": {"thing": 1}},
    "noise": {"a": 1},
    "time": "2025-12-01T00:00:00Z",
}


@pytest.mark.parametrize("form", ["ndjson", "parquet"])
@pytest.mark.parametrize(
    ("changes", "unknown"),
    [
        ({}, None),
        ({"device": {"id": 1, "battery": {"volt": 3}}}, ("device.battery",)),
        ({"readings": [{"value": 1, "unit": "C"}]}, ("readings[].unit",)),
        ({"new": {"a": {"b": 1}}}, ("new",)),
        ({"new": [1]}, ("new",)),
        ({"device": {"color": {"r": 1}}}, None),
    ],
)
def test_fields_that_are_new_are_told_by_their_paths(tmp_path, form, changes, unknown):
    path = tmp_path / f"a.{form}"
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist([LINE | changes]), path)
    else:
        path.write_text(json.dumps(LINE | changes) + "\n")
    assert find_drift(STREAM, [path]).get(path) == unknown


def test_a_flat_column_of_a_paths_name_is_known(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("device.id,readings[].value,time,other\n")
    assert find_drift(STREAM, [path]) == {path: ("other",)}


def test_a_stream_that_keeps_whole_lines_knows_all(tmp_path):
    stream = Stream("whole", pa.schema([("line", pa.string())]), "ingested_at", sources={"line": Source(json=True)})
    path = tmp_path / "a.ndjson"
    path.write_text('{"a": {"b": 1}}\n')
    assert find_drift(stream, [path]) == {}
