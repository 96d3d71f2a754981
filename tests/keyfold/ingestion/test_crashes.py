"""A run of ingest that is cut off between any two writes: the tables end as without it, and events have arrived when they were planned."""

from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from keyfold.ingestion import ingest, ingest_journal
from keyfold.lakehouse import Lakehouse, fail_points
from keyfold.lakehouse.log_changes import snapshot
from keyfold.stream import INGESTED_AT
from keyfold.times import micros
from tests.keyfold.ingestion.test_batch import CRASHES, changed, no_spark
from tests.keyfold.ingestion.test_run import EVENTS, Crash, check_counts, crash_at, event, land, tables

SPARK: Any = no_spark(2)


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
    # The batch that rejected a row depends on how the run was cut.
    rejected = [(raw, Path(file).name, line, reason) for raw, file, line, reason, *_ in quarantine]
    return events, sorted(rejected, key=repr), totals


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, ...]:
    folder = tmp_path_factory.mktemp("unbroken")
    lakehouse = Lakehouse(folder / "home")
    for part in (0, 1):
        history(folder / "landing", part)
        check_counts(lakehouse, ingest(SPARK, lakehouse, EVENTS, folder / "landing"))
    return outcome(lakehouse)


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
            arrived = pq.read_table(BytesIO((events / file.path).read_bytes()), columns=[INGESTED_AT]).column(0)
            assert arrived.unique().to_pylist() == [at]
            assert stated.pop(file.path) == (micros(at), micros(at))
    assert not stated


@pytest.mark.parametrize("point", CRASHES)
def test_a_crash_between_any_two_writes_changes_nothing_in_the_end(
    tmp_path: Path, unbroken: tuple[Any, ...], point: str
):
    lakehouse, landing = Lakehouse(tmp_path / "home"), tmp_path / "landing"
    history(landing, 0)
    ingest(SPARK, lakehouse, EVENTS, landing)
    history(landing, 1)
    # A batch for each file, so that several plans are left.
    with changed(fail_points, act=crash_at(point)), pytest.raises(Crash):
        ingest(SPARK, lakehouse, EVENTS, landing, max_bytes_per_batch=1)
    planned = planned_arrivals(lakehouse)
    check_counts(lakehouse, ingest(SPARK, lakehouse, EVENTS, landing, max_bytes_per_batch=1))
    assert outcome(lakehouse) == unbroken
    # What was planned before the crash has arrived then, however much later it was read.
    check_arrivals(lakehouse, planned_arrivals(lakehouse) | planned)
    assert ingest(SPARK, lakehouse, EVENTS, landing).rows_read == 0
