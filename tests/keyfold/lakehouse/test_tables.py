"""Tables are made with what their columns mean, and stay tables that anybody reads and writes."""

from datetime import timedelta

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from keyfold.columns import column, required
from keyfold.ingestion import ingest
from keyfold.lakehouse import create_table
from keyfold.lakehouse.commits import append_files
from keyfold.lakehouse.data_files import write_data_file
from keyfold.stream import INGESTED_AT, TIMESTAMP, Stream

TRIPS = pa.schema(
    [
        required("bus", pa.string(), "The bus: 'its' \"name\" | or number", lineage="vehicle"),
        column("speed", pa.float64(), "Mean speed; NULL for a trip of one moment", unit="km/h"),
        pa.field("note", pa.list_(pa.string())),
    ]
)
SPOKEN = {
    "bus": "The bus: 'its' \"name\" | or number",
    "speed": "Mean speed, km/h; NULL for a trip of one moment",
    "note": None,
}


def comments(path) -> dict[str, str | None]:
    return {field.name: field.metadata.get("comment") for field in DeltaTable(str(path)).schema().fields}


def test_columns_have_their_meaning_as_comment_and_no_more(tmp_path):
    create_table(tmp_path / "trips", TRIPS)
    assert comments(tmp_path / "trips") == SPOKEN
    fields = DeltaTable(str(tmp_path / "trips")).schema().fields
    assert all(field.metadata.keys() <= {"comment"} and field.nullable for field in fields)


def test_the_comments_stay_after_rows_were_written(tmp_path):
    table = tmp_path / "trips"
    create_table(table, TRIPS)
    rows = pl.DataFrame({"bus": ["b7"], "speed": [31.5], "note": [["late"]]})
    append_files(table, [write_data_file(rows, table, TRIPS)], "application", 0)
    # Another Delta writer, which does not know of comments.
    rows.write_delta(str(table), mode="append")
    assert comments(table) == SPOKEN
    assert pl.read_delta(str(table)).height == 2


def test_a_table_that_is_there_stays_as_it_is_whatever_is_now_said_of_its_columns(tmp_path):
    create_table(tmp_path / "trips", TRIPS)
    other = pa.schema([column("bus", pa.string(), "Something else"), *list(TRIPS)[1:]])
    create_table(tmp_path / "trips", other)
    assert comments(tmp_path / "trips") == SPOKEN
    assert DeltaTable(str(tmp_path / "trips")).version() == 0


@pytest.fixture
def clicks() -> Stream:
    return Stream(
        name="clicks",
        schema=pa.schema(
            [
                required("user", pa.string(), "Who clicked"),
                required("time", TIMESTAMP, "When (UTC)"),
            ]
        ),
        event_time="time",
    )


def test_a_column_that_a_stream_gains_comes_with_its_comment(spark, lakehouse, clicks):
    landing = lakehouse.landing("clicks")
    landing.mkdir(parents=True)
    (landing / "a.json").write_text('{"user": "ann", "time": "2026-01-01T12:00:00Z"}\n')
    ingest(lakehouse, clicks, settle=timedelta(0), runners=spark)
    wider = Stream(
        name="clicks",
        schema=pa.schema([*clicks.schema, column("dwell", pa.float64(), "Time spent", unit="seconds")]),
        event_time="time",
    )
    (landing / "b.json").write_text('{"user": "bob", "time": "2026-01-01T12:01:00Z", "dwell": 2.5}\n')
    ingest(lakehouse, wider, settle=timedelta(0), runners=spark)
    assert comments(lakehouse.events("clicks")) == {
        "user": "Who clicked",
        "time": "When (UTC)",
        INGESTED_AT: "Arrival: when the file, or the message, that the event came in was admitted (UTC)",
        "dwell": "Time spent, seconds",
    }
    assert sorted(pl.read_delta(str(lakehouse.events("clicks")))["dwell"].to_list(), key=str) == [2.5, None]
