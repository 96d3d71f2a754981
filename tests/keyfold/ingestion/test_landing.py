"""Where a stream's events come from, and what its files have that it does not know."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keyfold.errors import KeyfoldError
from keyfold.ingestion import KafkaTopic
from keyfold.ingestion.drift import find_drift
from keyfold.ingestion.landing import find_landing
from keyfold.stream import Source, Stream
from tests.schemas import schema_of

KAFKA = {"KEYFOLD_KAFKA_BOOTSTRAP": "127.0.0.1:9092", "KEYFOLD_KAFKA_TOPICS": "weather=w.obs"}


def test_a_topic_of_the_deployment_goes_before_the_landing_folder_and_what_is_given_before_both():
    named = find_landing("weather", environment=KAFKA)
    assert isinstance(named, KafkaTopic)
    assert (named.name, named.start, named.on_gap, named.reset) == ("w.obs", "earliest", "error", False)
    assert find_landing("sales", environment=KAFKA) is None
    assert find_landing("weather", "/data", environment=KAFKA) == Path("/data")
    given = find_landing("sales", "kafka://s", start="2026-01-01T01:00:00+01:00", on_gap="record", environment=KAFKA)
    assert isinstance(given, KafkaTopic)
    assert (given.source, given.start, given.on_gap) == ("kafka://s", datetime(2026, 1, 1, tzinfo=UTC), "record")


@pytest.mark.parametrize(
    ("given", "options", "told"),
    [
        ("/data", {"start": "latest"}, "go with a topic, as in kafka://rides; sales is read from /data"),
        (None, {"reset_topic": True}, "sales is read from its landing folder"),
        ("kafka://s", {"on_gap": "ignore"}, "on_gap is 'ignore': give one of error, record"),
        ("kafka://s", {"start": "noon"}, "noon"),
        ("kafka://a/b", {}, "the topic is 'a/b'"),
        ("kafka://", {}, "the topic is ''"),
    ],
)
def test_what_does_not_go_together_is_refused(given, options, told):
    with pytest.raises(KeyfoldError, match=told):
        find_landing("sales", given, environment=KAFKA, **options)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("KEYFOLD_LANDING", "sales=/data/all weather=/data/all/"),
        ("KEYFOLD_LANDING", "sales=s3a://lake/all weather=s3a://lake/all"),
        ("KEYFOLD_KAFKA_TOPICS", "sales=all weather=all"),
    ],
)
def test_two_streams_have_no_source_in_common(variable: str, value: str):
    with pytest.raises(
        KeyfoldError, match=rf"{variable} gives sales and weather the same source, .*all, .* of its own"
    ):
        find_landing("sales", environment={variable: value, "KEYFOLD_KAFKA_BOOTSTRAP": "127.0.0.1:9092"})


SCHEMA = schema_of("device int64!, value float64!, place int64, first string, kept string, time time!")
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
    assert find_drift(STREAM, [path]).unknown.get(path) == unknown


def test_a_flat_column_of_a_paths_name_is_known(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("device.id,readings[].value,time,other\n")
    assert find_drift(STREAM, [path]).unknown == {path: ("other",)}


def test_a_stream_that_keeps_whole_lines_knows_all(tmp_path):
    stream = Stream("whole", pa.schema([("line", pa.string())]), "ingested_at", sources={"line": Source(json=True)})
    path = tmp_path / "a.ndjson"
    path.write_text('{"a": {"b": 1}}\n')
    assert find_drift(stream, [path]).unknown == {}
