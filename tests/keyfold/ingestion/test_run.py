"""Ingest from landing folder to tables: counts, copies, and what a run left that broke off. DuckDB and plain Python are the oracles."""

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from keyfold.errors import KeyfoldError
from keyfold.ingestion import IngestCounts
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.reading import scan_table
from keyfold.runs import ingest
from keyfold.storage.disk_path import DiskPath
from keyfold.stream import INGESTED_AT, TIMESTAMP, Source, Stream
from spark_jobs.streams import RIDE_POINTS
from tests.lake import LOCAL
from tests.landings import EVENTS, START, check_counts, event, land, rows, tables
from tests.power_cuts import power_cut_at


@pytest.fixture
def landing(tmp_path: DiskPath) -> Path:
    (tmp_path / "land ing [a] %20").mkdir()
    return tmp_path / "land ing [a] %20"


def test_real_rides_are_ingested_once(lakehouse: Lakehouse, real_data: Path):
    rides = real_data / "rides"
    source = duckdb.read_json(f"{rides}/*.gz")
    expected = source.aggregate("count(*), sum(point_idx), max(timestamp::TIMESTAMPTZ)").fetchall()
    summary = ingest(lakehouse, RIDE_POINTS, rides, runners=LOCAL)
    check_counts(lakehouse, summary, RIDE_POINTS)
    events = DeltaTable(str(lakehouse.events("ride_points"))).to_pyarrow_table()
    assert events.schema.names == [*RIDE_POINTS.schema.names, INGESTED_AT]
    found = duckdb.from_arrow(events).aggregate("count(*), sum(point_idx), max(timestamp)").fetchall()
    assert found == expected
    assert summary.files == len(list(rides.glob("*.gz")))
    again = ingest(lakehouse, RIDE_POINTS, rides, runners=LOCAL)
    assert (again.files, again.rows_read, again.batches, again.totals) == (0, 0, 0, summary.totals)
    workshop = ingest(lakehouse, RIDE_POINTS, real_data / "workshop", runners=LOCAL)
    check_counts(lakehouse, workshop, RIDE_POINTS)
    assert workshop.accepted == len((real_data / "workshop" / "one_ride.ndjson").read_text().splitlines())


def test_elements_of_a_list_are_events_each_once_and_all_are_counted(lakehouse: Lakehouse, landing: DiskPath):
    schema = pa.schema([("sensor", pa.string()), ("place", pa.int64()), ("value", pa.float64()), ("at", TIMESTAMP)])
    sources = {"sensor": Source("sensor.name"), "place": Source(place=True), "value": Source("values[].v")}
    stream = Stream("sensors", schema, "at", event_id=("sensor", "at", "place"), sources=sources)
    lists = [[1, 1, 1], [1, "x", 2], []]
    lines = [
        {"sensor": {"name": name}, "at": START.isoformat(), "values": [{"v": value} for value in values]}
        for name, values in zip("abc", lists, strict=True)
    ]
    land(landing / "a.json", [*lines, lines[0]], "{", '{"sensor": {"name": "d"}}')
    land(landing / "b.json", lines)
    summary = ingest(lakehouse, stream, landing, runners=LOCAL)
    check_counts(lakehouse, summary, stream)
    events, quarantine, _ = tables(lakehouse, stream)
    assert events == [
        *(("a", place, 1.0, START) for place in range(3)),
        ("b", 0, 1.0, START),
        ("b", 2, 2.0, START),
    ]
    # Two bad elements, each in both files; a line that is none, and one without a list.
    assert (summary.rows_read, summary.quarantined, summary.duplicates) == (17, 4, 8)
    assert {reason.partition(":")[0] for _, _, _, reason, *_ in quarantine} == {
        "values[1]",
        "not valid JSON",
        "values is missing",
    }


def test_times_of_any_year_are_kept_or_rejected_but_block_nothing(lakehouse: Lakehouse, landing: DiskPath):
    years = ("0001-01-01", "1500-02-28", "1899-12-31", "9999-12-31", "0000-01-01")
    land(landing / "a.json", [event("u", index) | {"at": f"{day}T00:00:00Z"} for index, day in enumerate(years)])
    summary = ingest(lakehouse, EVENTS, landing, runners=LOCAL)
    assert (summary.accepted, summary.quarantined) == (3, 2)
    assert [str(row[2])[:10] for row in rows(lakehouse.events("clicks"))] == ["0001-01-01", "1500-02-28", "1899-12-31"]


# crashes


def test_another_source_finishes_what_a_crash_left_and_brings_no_copies(
    lakehouse: Lakehouse, tmp_path: DiskPath, monkeypatch: pytest.MonkeyPatch
):
    land(tmp_path / "one" / "a.json", [event("u", 1), event("u", 2)])
    land(tmp_path / "two" / "b.json", [event("u", 2), event("u", 3)])
    with power_cut_at("work: after"):
        ingest(lakehouse, EVENTS, tmp_path / "one", runners=LOCAL)
    summary = ingest(lakehouse, EVENTS, tmp_path / "two", runners=LOCAL)
    check_counts(lakehouse, summary)
    assert (summary.batches, summary.accepted, summary.duplicates) == (2, 3, 1)
    assert ingest(lakehouse, EVENTS, tmp_path / "one", runners=LOCAL).files == 0


# what people get wrong


def test_a_missing_landing_folder_says_what_to_do(lakehouse: Lakehouse):
    with pytest.raises(KeyfoldError, match="create it and put files of clicks into it"):
        ingest(lakehouse, EVENTS, runners=LOCAL)


def test_an_empty_landing_folder_leaves_empty_tables_that_can_be_read(lakehouse: Lakehouse, landing: DiskPath):
    summary = ingest(lakehouse, EVENTS, landing, runners=LOCAL)
    assert (summary.files, summary.batches, summary.totals) == (0, 0, IngestCounts())
    assert tables(lakehouse) == ([], [], IngestCounts())
    assert scan_table(lakehouse.events("clicks")).collect_schema().names() == [*EVENTS.schema.names, INGESTED_AT]
