"""Streams are modules of their package; a stream says nothing of columns that it does not have."""

from dataclasses import replace
from importlib import import_module

import pyarrow as pa
import pytest

import spark_jobs.streams
from keyfold.columns import column, describe, lineage_of
from keyfold.discovery import declarations, import_modules
from keyfold.errors import KeyfoldError
from keyfold.stream import INGESTED_AT, TIMESTAMP, Source, Stream
from spark_jobs.streams import METRICS, RIDE_POINTS, SALES, STREAMS, TELEMETRY, WEATHER

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


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"private": ("user", "card")}, "private names card"),
        ({"event_time": "when"}, "event_time names when"),
        ({"event_id": ("user", "number")}, "event_id names number"),
        ({"sources": {"usr": Source(("user",))}}, "sources names usr"),
    ],
)
def test_a_stream_that_names_a_column_which_it_lacks_is_refused(wrong, told):
    with pytest.raises(KeyfoldError, match=f"stream clicks: {told}, which its schema does not have; it has user, time"):
        replace(CLICKS, **wrong)
