"""Ingest from landing folder to tables: counts, duplicates, crashes. DuckDB and plain Python are the oracles."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from keyfold.errors import KeyfoldError
from keyfold.ingestion import IngestCounts, IngestSummary, ingest, ingest_journal, ingest_totals
from keyfold.lakehouse import Lakehouse, exclusive, fail_points
from keyfold.lakehouse.fail_points import POINTS
from keyfold.lakehouse.log_changes import snapshot
from keyfold.storage.place import Place
from keyfold.stream import INGESTED_AT, TIMESTAMP, Source, Stream
from keyfold.times import micros
from spark_jobs.streams import RIDE_POINTS
from tests.schemas import schema_of

AnyPlace = TypeVar("AnyPlace", bound=Place)

START = datetime(2016, 6, 21, 17, tzinfo=UTC)
EVENTS = Stream(
    name="clicks",
    schema=schema_of("user string!, seq int64, at time!, note string"),
    event_time="at",
    event_id=("user", "seq"),
    duplicate_window=timedelta(days=1),
)


def event(user: str = "u", seq: int | None = 1, hours: float = 0, note: str | None = None) -> dict[str, Any]:
    return {"user": user, "seq": seq, "at": (START + timedelta(hours=hours)).isoformat(), "note": note}


def land(path: AnyPlace, events: list[dict[str, Any]], *more: str) -> AnyPlace:
    """Write a file of NDJSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [*(json.dumps(one) for one in events), *more]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def rows(path: Place) -> list[tuple[Any, ...]]:
    """A Delta table's rows but for their arrival, sorted, read without Spark."""
    table = DeltaTable(str(path)).to_pyarrow_table()
    kept = table.select([name for name in table.schema.names if name != INGESTED_AT])
    return sorted((tuple(row.values()) for row in kept.to_pylist()), key=repr)


def planned_arrivals(lakehouse: Lakehouse) -> dict[int, datetime]:
    """When the files of each batch were admitted, as the plans have it."""
    journal = ingest_journal(lakehouse, "clicks")
    found: dict[int, datetime] = {}
    while (plan := journal.plan(len(found))) is not None:
        found[plan.batch] = plan.planned_at
    return found


def check_arrivals(lakehouse: Lakehouse, planned: dict[int, datetime]) -> None:
    """Each event arrived when its batch was planned, by the rows and by the log's statistics, from which jobs plan."""
    journal, events = ingest_journal(lakehouse, "clicks"), lakehouse.events("clicks")
    stated = {file.path: (file.first, file.last) for file in snapshot(events, INGESTED_AT).files}
    for batch, at in planned.items():
        done = journal.done(batch)
        assert done is not None
        for file in done.tables["events"]:
            rows = pq.read_table(BytesIO((events / file.path).read_bytes()), columns=[INGESTED_AT]).column(0)
            assert rows.unique().to_pylist() == [at]
            assert stated.pop(file.path) == (micros(at), micros(at))
    assert not stated


def tables(lakehouse: Lakehouse, stream: Stream = EVENTS) -> tuple[list[Any], list[Any], IngestCounts]:
    events, quarantine = rows(lakehouse.events(stream.name)), rows(lakehouse.quarantine(stream.name))
    return events, quarantine, ingest_totals(lakehouse, stream)


def check_counts(lakehouse: Lakehouse, summary: IngestSummary, stream: Stream = EVENTS) -> None:
    """What always holds."""
    events, quarantine, totals = tables(lakehouse, stream)
    assert summary.rows_read == summary.accepted + summary.quarantined + summary.duplicates
    assert totals == summary.totals
    assert totals.rows_read == totals.accepted + totals.quarantined + totals.duplicates
    assert (len(events), len(quarantine)) == (totals.accepted, totals.quarantined)


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    (tmp_path / "land ing [a] %20").mkdir()
    return tmp_path / "land ing [a] %20"


def test_real_rides_are_ingested_once(spark: SparkSession, lakehouse: Lakehouse, real_data: Path):
    rides = real_data / "rides"
    source = duckdb.read_json(f"{rides}/*.gz")
    expected = source.aggregate("count(*), sum(point_idx), max(timestamp::TIMESTAMPTZ)").fetchall()
    summary = ingest(spark, lakehouse, RIDE_POINTS, rides)
    check_counts(lakehouse, summary, RIDE_POINTS)
    events = DeltaTable(str(lakehouse.events("ride_points"))).to_pyarrow_table()
    assert events.schema.names == [*RIDE_POINTS.schema.names, INGESTED_AT]
    found = duckdb.from_arrow(events).aggregate("count(*), sum(point_idx), max(timestamp)").fetchall()
    assert found == expected
    assert summary.files == len(list(rides.glob("*.gz")))
    again = ingest(spark, lakehouse, RIDE_POINTS, rides)
    assert (again.files, again.rows_read, again.batches, again.totals) == (0, 0, 0, summary.totals)
    workshop = ingest(spark, lakehouse, RIDE_POINTS, real_data / "workshop")
    check_counts(lakehouse, workshop, RIDE_POINTS)
    assert workshop.accepted == len((real_data / "workshop" / "one_ride.ndjson").read_text().splitlines())


def test_all_formats_in_nested_folders_with_odd_names_come_in_together(
    spark: SparkSession, lakehouse: Lakehouse, landing: Path
):
    points = [event("u", index) for index in range(8)]
    text = [json.dumps(point).encode() + b"\n" for point in points]
    csv = [f"user,seq,at,note\n{point['user']},{point['seq']},{point['at']},\n".encode() for point in points]
    (landing / "deep" / "er: é").mkdir(parents=True)
    (landing / "a b.json").write_bytes(text[0])
    (landing / "deep" / "c%20d+#?.ndjson").write_bytes(text[1])
    (landing / "deep" / "er: é" / "2016-06-21T17:00:00.jsonl").write_bytes(text[2])
    (landing / "e.ndjson.gz").write_bytes(gzip.compress(text[3]))
    (landing / "f.csv").write_bytes(csv[4])
    (landing / "g.csv.gz").write_bytes(gzip.compress(csv[5]))
    times = [point | {"at": datetime.fromisoformat(point["at"])} for point in points[6:]]
    pq.write_table(pa.Table.from_pylist(times, schema=EVENTS.schema), landing / "h.parquet")
    (landing / "empty.json").write_bytes(b"")
    (landing / "broken.json.gz").write_bytes(gzip.compress(text[0])[:-4])
    (landing / "notes.txt").write_text("hello")
    (landing / ".hidden.json").write_bytes(b"rubbish")
    (landing / "_temporary.json").write_bytes(b"rubbish")
    summary = ingest(spark, lakehouse, EVENTS, landing)
    check_counts(lakehouse, summary)
    events, quarantine, _ = tables(lakehouse)
    assert events == sorted([("u", index, START, None) for index in range(8)], key=repr)
    rejected = {(raw, Path(file).relative_to(landing).as_posix(), line) for raw, file, line, *_ in quarantine}
    assert rejected == {(None, "broken.json.gz", None), (None, "notes.txt", None)}
    assert (summary.rows_read, summary.accepted, summary.quarantined) == (10, 8, 2)


def test_copies_are_dropped_in_a_file_across_files_and_across_runs(
    spark: SparkSession, lakehouse: Lakehouse, landing: Path
):
    land(landing / "b.json", [event("u", 1, note="later file"), event("w", None)])
    land(landing / "a.json", [event("u", 1, note="kept"), event("u", 1, 1), event("v", 1), event("w", None)])
    summary = ingest(spark, lakehouse, EVENTS, landing)
    check_counts(lakehouse, summary)
    assert (summary.accepted, summary.duplicates) == (3, 3)
    assert ("u", 1, START, "kept") in tables(lakehouse)[0]
    land(landing / "c.json", [event("u", 1, -24), event("x", 1), event("w", None, 24)], "rubbish")
    summary = ingest(spark, lakehouse, EVENTS, landing)
    check_counts(lakehouse, summary)
    assert (summary.rows_read, summary.accepted, summary.duplicates, summary.quarantined) == (4, 1, 2, 1)


def test_elements_of_a_list_are_events_each_once_and_all_are_counted(
    spark: SparkSession, lakehouse: Lakehouse, landing: Path
):
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
    summary = ingest(spark, lakehouse, stream, landing)
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


def test_copies_beyond_the_window_are_kept_however_the_files_are_split(spark: SparkSession, new_home, tmp_path: Path):
    hours = [0, 20, 25, 45, -24, -24.1, 50, 0]
    kept: list[float] = []
    for hour in hours:
        if all(abs(hour - other) > 24 for other in kept):
            kept.append(hour)
    results = []
    for name, in_batch in (("one-batch", 1 << 20), ("a-batch-a-file", 1)):
        lakehouse, landing = new_home(name), tmp_path / name / "landing"
        for index, hour in enumerate(hours):
            land(landing / f"{index}.json", [event("u", 1, hour)])
        summary = ingest(spark, lakehouse, EVENTS, landing, max_bytes_per_batch=in_batch)
        check_counts(lakehouse, summary)
        assert summary.batches == (1 if name == "one-batch" else len(hours))
        results.append([at for _, _, at, _ in tables(lakehouse)[0]])
    expected = sorted((START + timedelta(hours=hour) for hour in kept), key=repr)
    assert [sorted(result, key=repr) for result in results] == [expected, expected]


def test_a_stream_without_an_event_id_keeps_every_row(spark: SparkSession, lakehouse: Lakehouse, landing: Path):
    land(landing / "a.json", [event()] * 3)
    summary = ingest(spark, lakehouse, replace(EVENTS, event_id=()), landing)
    assert (summary.accepted, summary.duplicates) == (3, 0)


def test_a_renamed_landing_folder_brings_no_event_twice(spark: SparkSession, lakehouse: Lakehouse, landing: Path):
    land(landing / "a.json", [event("u", index) for index in range(5)])
    ingest(spark, lakehouse, EVENTS, landing)
    moved = landing.rename(landing.with_name("moved"))
    summary = ingest(spark, lakehouse, EVENTS, moved)
    check_counts(lakehouse, summary)
    assert (summary.accepted, summary.duplicates, summary.totals.rows_read) == (0, 5, 10)


def test_files_filled_in_later_with_old_times_are_read(spark: SparkSession, lakehouse: Lakehouse, landing: Path):
    land(landing / "new.json", [event("u", 1)])
    ingest(spark, lakehouse, EVENTS, landing)
    old = land(landing / "old.json", [event("u", 2)])
    os.utime(old, (START.timestamp(), START.timestamp()))
    assert ingest(spark, lakehouse, EVENTS, landing).accepted == 1


def test_times_of_any_year_are_kept_or_rejected_but_block_nothing(
    spark: SparkSession, lakehouse: Lakehouse, landing: Path
):
    years = ("0001-01-01", "1500-02-28", "1899-12-31", "9999-12-31", "0000-01-01")
    land(landing / "a.json", [event("u", index) | {"at": f"{day}T00:00:00Z"} for index, day in enumerate(years)])
    summary = ingest(spark, lakehouse, EVENTS, landing)
    assert (summary.accepted, summary.quarantined) == (3, 2)
    found = spark.read.format("delta").load(str(lakehouse.events("clicks"))).selectExpr("string(at) AS at").collect()
    assert sorted(row["at"][:10] for row in found) == ["0001-01-01", "1500-02-28", "1899-12-31"]


# crashes


class Crash(Exception):
    """Stands for a kill at one moment."""


def history(folder: Path, part: int) -> None:
    """Two rounds of files with copies, bad rows and a broken file."""
    for index in (0, 1):
        name = f"{part}-{index}"
        good = [event(f"u{index}", seq, seq) for seq in range(part * 5, part * 5 + 8)]
        land(folder / f"{name}.json", [*good, good[0]], "rubbish")
        (folder / f"{name}.gz").write_bytes(b"rubbish")


def outcome(lakehouse: Lakehouse) -> tuple[Any, ...]:
    """Tables and counts, free of the landing folder's own name."""
    events, quarantine, totals = tables(lakehouse)
    # In which batch a row was rejected is the run's own affair.
    rejected = [(raw, Path(file).name, line, reason) for raw, file, line, reason, *_ in quarantine]
    return events, sorted(rejected, key=repr), totals


@pytest.fixture(scope="session")
def unbroken(spark: SparkSession, new_home, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, ...]:
    folder, lakehouse = tmp_path_factory.mktemp("unbroken"), new_home("unbroken")
    for part in (0, 1):
        history(folder / "landing", part)
        check_counts(lakehouse, ingest(spark, lakehouse, EVENTS, folder / "landing"))
    return outcome(lakehouse)


@pytest.mark.parametrize(
    "point", [point for point in POINTS if point.partition(":")[0] in ("plan", "work", "done", "commit")]
)
@pytest.mark.parametrize("max_bytes", [1, pytest.param(1 << 20, marks=pytest.mark.slow)])
def test_a_crash_between_any_two_writes_changes_nothing_in_the_end(
    spark: SparkSession,
    lakehouse: Lakehouse,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    unbroken: tuple[Any, ...],
    point: str,
    max_bytes: int,
):
    landing = tmp_path / "landing"
    history(landing, 0)
    ingest(spark, lakehouse, EVENTS, landing)
    history(landing, 1)
    with monkeypatch.context() as patch:
        patch.setattr(fail_points, "act", crash_at(point))
        if point == "plan: one of several" and max_bytes > 1:
            ingest(spark, lakehouse, EVENTS, landing, max_bytes_per_batch=max_bytes)
        else:
            with pytest.raises(Crash):
                ingest(spark, lakehouse, EVENTS, landing, max_bytes_per_batch=max_bytes)
    planned = planned_arrivals(lakehouse)
    check_counts(lakehouse, ingest(spark, lakehouse, EVENTS, landing, max_bytes_per_batch=max_bytes))
    assert outcome(lakehouse) == unbroken
    # What was planned before the crash has arrived then, however much later it was read.
    check_arrivals(lakehouse, planned_arrivals(lakehouse) | planned)
    assert ingest(spark, lakehouse, EVENTS, landing).rows_read == 0


def crash_at(point: str) -> Callable[[str], None]:
    def act(reached: str) -> None:
        if reached == point:
            raise Crash

    return act


def test_another_source_finishes_what_a_crash_left_and_brings_no_copies(
    spark: SparkSession, lakehouse: Lakehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    land(tmp_path / "one" / "a.json", [event("u", 1), event("u", 2)])
    land(tmp_path / "two" / "b.json", [event("u", 2), event("u", 3)])
    with monkeypatch.context() as patch:
        patch.setattr(fail_points, "act", crash_at("work: after"))
        with pytest.raises(Crash):
            ingest(spark, lakehouse, EVENTS, tmp_path / "one")
    summary = ingest(spark, lakehouse, EVENTS, tmp_path / "two")
    check_counts(lakehouse, summary)
    assert (summary.batches, summary.accepted, summary.duplicates) == (2, 3, 1)
    assert ingest(spark, lakehouse, EVENTS, tmp_path / "one").files == 0


@pytest.mark.parametrize(("batches", "seconds"), [(0, 0.1), (1, 0.0), (3, 0.05)])
def test_a_run_killed_outright_is_made_good_by_the_next(
    spark: SparkSession, lakehouse: Lakehouse, tmp_path: Path, batches: int, seconds: float
):
    landing = tmp_path / "landing"
    for index in range(6):
        land(landing / f"{index}.json", [event("u", seq) for seq in range(index * 9, index * 9 + 10)], "x")
    # Batches as small as these are read by the run's own process: Spark is asked for nothing but how much it would do.
    program = (
        "import sys; from pathlib import Path; from keyfold.ingestion import ingest; "
        "from keyfold.lakehouse import Lakehouse; from tests.keyfold.ingestion.test_batch import no_spark; "
        "from tests.keyfold.ingestion.test_run import EVENTS; print('ready', flush=True); "
        "ingest(no_spark(2), Lakehouse(sys.argv[1]), EVENTS, Path(sys.argv[2]), max_bytes_per_batch=1, "
        "on_batch=lambda *_: print('batch', flush=True))"
    )
    root = Path(__file__).resolve().parents[3]
    command = [sys.executable, "-c", program, str(lakehouse.home), str(landing)]
    killed = subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, start_new_session=True)
    assert killed.stdout is not None
    for expected in ["ready", *["batch"] * batches]:
        assert killed.stdout.readline().decode().strip() == expected
    time.sleep(seconds)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    killed.stdout.close()
    # In a bucket the dead one's lease lasts for half a minute.
    with exclusive(lakehouse.ingest("clicks"), "another run", patience=timedelta(minutes=2)):
        pass
    summary = ingest(spark, lakehouse, EVENTS, landing, max_bytes_per_batch=1)
    check_counts(lakehouse, summary)
    assert summary.totals == IngestCounts(files=6, rows_read=66, accepted=55, quarantined=6, duplicates=5)


# what people get wrong


def test_a_missing_landing_folder_says_what_to_do(spark: SparkSession, lakehouse: Lakehouse):
    with pytest.raises(KeyfoldError, match="create it and put files of clicks into it"):
        ingest(spark, lakehouse, EVENTS)


def test_an_empty_landing_folder_leaves_empty_tables_that_can_be_read(
    spark: SparkSession, lakehouse: Lakehouse, landing: Path
):
    summary = ingest(spark, lakehouse, EVENTS, landing)
    assert (summary.files, summary.batches, summary.totals) == (0, 0, IngestCounts())
    assert tables(lakehouse) == ([], [], IngestCounts())
    assert spark.read.format("delta").load(str(lakehouse.events("clicks"))).columns == [
        *EVENTS.schema.names,
        INGESTED_AT,
    ]


def test_a_stream_is_ingested_by_one_run_at_a_time(spark: SparkSession, lakehouse: Lakehouse, landing: Path):
    with (
        exclusive(lakehouse.ingest("clicks"), "another run"),
        pytest.raises(KeyfoldError, match="already running"),
    ):
        ingest(spark, lakehouse, EVENTS, landing)
