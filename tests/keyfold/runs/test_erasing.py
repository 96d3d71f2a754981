"""A person's rows, erased wherever they are: deleted from what came, and left out of what is computed again."""

import json
from datetime import timedelta

import pytest
from deltalake import DeltaTable
from pydantic import ValidationError

from keyfold.errors import KeyfoldError
from keyfold.journal.audit import Author
from keyfold.keyed.conservation import check_conservation
from keyfold.keyed.generation.batch_records import PlannedFile
from keyfold.keyed.generation.run_mode import FullRefresh, Incremental
from keyfold.keyed.job_run import run_job
from keyfold.lakehouse.data_files import WrittenFile
from keyfold.lakehouse.file_changes import forget
from keyfold.maintenance import MaintainedTable, maintain
from keyfold.runs.event_changes import erase
from keyfold.state.making.seeding import SeedSource, seed_job
from tests.folders import files_that_hold
from tests.keyfold.keyed.toy_jobs import windows
from tests.keyfold.state.job_histories import put
from tests.shop import CLICK, CLICKS, clicks

BY = Author("dpo@example.org", "request 17")
EVA = ({"user": ["evangeline"]}, BY)


@pytest.fixture
def land(lakehouse):
    """Put clicks into the event table as ingest does, one file a call."""
    return lambda *events: put(lakehouse, "clicks", clicks(*events), CLICK)


def test_a_value_is_found_by_what_it_says_and_not_by_how_it_is_written(without_spark, lakehouse, land, rows, minutes):
    land(("eva", 1), ("evangeline", 2), ("Eva", 3), ("eva ", 31))
    run_job(lakehouse, windows(), runners=without_spark)
    erased = erase(lakehouse, CLICKS, [windows()], {"user": ["eva"]}, BY, yes=True, runners=without_spark)
    assert erased.rows == {"events.clicks": 1}
    run_job(lakehouse, windows(), Incremental(advance_to=minutes(90)), runners=without_spark)
    assert [user for user, *_ in rows("windows")] == ["Eva", "eva ", "evangeline"]


@pytest.mark.parametrize("read_from", ["latest", "start"])
def test_a_seed_would_be_lost_so_the_way_on_is_told_first(without_spark, lakehouse, land, tmp_path, read_from):
    land(("ann", 1), ("evangeline", 2))
    seed = tmp_path / "seed.jsonl"
    seed.write_text('{"ann":{"window":"2026-01-01T00:00:00Z","clicks":5,"deadline":"2026-01-01T00:10:00Z"}}')
    seed_job(lakehouse, windows(), SeedSource(str(seed), read_from=read_from), yes=True, runners=without_spark)
    for is_tried in (True, False):
        with pytest.raises(KeyfoldError, match=r"began with state from .*seed.jsonl.*--full-refresh"):
            erase(lakehouse, CLICKS, [windows()], *EVA, yes=not is_tried, runners=without_spark)
    assert files_that_hold(lakehouse, "evangeline")
    run_job(lakehouse, windows(), FullRefresh(), runners=without_spark)
    erase(lakehouse, CLICKS, [windows()], *EVA, yes=True, runners=without_spark)
    assert files_that_hold(lakehouse, "evangeline") == []


@pytest.mark.parametrize("named", ["../../victim", "/victim"])
def test_a_log_or_a_record_that_somebody_made_deletes_nothing_elsewhere(without_spark, lakehouse, land, named):
    land(("ann", 1))
    table, victim = lakehouse.events("clicks"), lakehouse.home / "victim"
    victim.write_text("of somebody else")
    path = str(victim) if named.startswith("/") else named
    remove = {"path": path, "deletionTimestamp": 1, "dataChange": True, "size": 1, "extendedFileMetadata": False}
    lines = [json.dumps(one) for one in ({"remove": remove}, {"commitInfo": {"timestamp": 1}})]
    newest = DeltaTable(str(table)).version()
    (table / "_delta_log" / f"{newest + 1:020d}.json").write_text("\n".join(lines) + "\n")
    forget(table)
    maintain(lakehouse, MaintainedTable("events.clicks", table, time="at"), timedelta(0))
    assert victim.read_text() == "of somebody else"
    for record in (WrittenFile, PlannedFile):
        with pytest.raises(ValidationError, match="leads out of its folder"):
            record(path=path, rows=1, bytes=1)


def test_a_job_that_is_behind_after_maintenance_reads_what_is_left_of_what_it_had_not_read(
    without_spark, lakehouse, land, rows, minutes
):
    ahead, behind = windows(), windows(name="behind")
    land(("ann", 1), ("evangeline", 2))
    for job in (ahead, behind):
        run_job(lakehouse, job, runners=without_spark)
    for minute in (3, 4, 31):
        land(("ann", minute), ("evangeline", minute))
    run_job(lakehouse, ahead, runners=without_spark)
    maintain(lakehouse, MaintainedTable("events.clicks", lakehouse.events("clicks"), time="at"), timedelta(0))
    erase(lakehouse, CLICKS, [ahead, behind], *EVA, yes=True, runners=without_spark)
    assert files_that_hold(lakehouse, "evangeline") == []
    for job in (ahead, behind):
        run_job(lakehouse, job, Incremental(advance_to=minutes(90)), runners=without_spark)
        assert rows(job.name) == [("ann", minutes(0), 3), ("ann", minutes(30), 1)]
        assert check_conservation(lakehouse, job).balanced
