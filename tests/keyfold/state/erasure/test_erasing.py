"""A person's rows, erased wherever they are; and named keys, corrected or removed. Without Spark but for its reader."""

import json

import polars as pl
import pytest

from keyfold.errors import KeyfoldError
from keyfold.keyed.generation.run_mode import Incremental
from keyfold.keyed.runner import run_job
from keyfold.lakehouse import create_table
from keyfold.lakehouse.commits import append_files
from keyfold.lakehouse.data_files import write_data_file
from keyfold.lakehouse.row_erasure import erase_rows, erased_rows, forget
from keyfold.state.changing.audit import Author, digest
from keyfold.state.changing.editing import Edit, edit_state
from keyfold.state.erasure.erasing import Erasure, erase
from keyfold.stream import Stream
from tests.keyfold.keyed.toy_jobs import CLICK, clicks, windows

CLICKS = Stream("clicks", CLICK.set(1, CLICK.field("at").with_nullable(False)), "at")
BY = Author("dpo@example.org", "request 17")
EVA = Erasure({"user": ["evangeline"]}, BY)


@pytest.fixture
def land(lakehouse):
    """Put clicks into the event table as ingest does, one file a call."""
    calls = iter(range(100))

    def land(*events):
        table = lakehouse.events("clicks")
        create_table(table, CLICK)
        append_files(table, [write_data_file(clicks(*events), table, CLICK)], "ingest", next(calls))

    return land


@pytest.fixture
def spark(without_spark):
    return without_spark


def files_that_hold(lakehouse, text):
    """Every file below the home in which a Parquet value, or the text itself, is."""
    found = []
    for path in lakehouse.home.rglob("*"):
        if path.suffix == ".parquet":
            frame = pl.read_parquet(path)
            if any(text in str(value) for row in frame.rows() for value in row):
                found.append(path)
        elif path.is_file() and text.encode() in path.read_bytes():
            found.append(path)
    return found


def test_a_person_is_erased_from_state_tables_events_and_history_and_all_counts_add_up(
    spark, lakehouse, land, rows, minutes
):
    job = windows()
    land(("ann", 1), ("evangeline", 2), ("evangeline", 13), ("bob", 31))
    run_job(lakehouse, job, runners=spark)
    land(("evangeline", 3), ("ann", 4))
    run_job(lakehouse, job, runners=spark)
    land(("evangeline", 32))
    run_job(lakehouse, job, runners=spark)
    land(("evangeline", 33), ("ann", 34))
    assert files_that_hold(lakehouse, "evangeline")
    counted = erase(spark, lakehouse, CLICKS, [job], EVA, dry_run=True)
    assert counted.rows == {"state of windows": 1, "windows": 2, "late.windows": 1, "events.clicks": 5}
    assert files_that_hold(lakehouse, "evangeline")
    erased = erase(spark, lakehouse, CLICKS, [job], EVA)
    assert (erased.rows, erased.generations, erased.sums) == (counted.rows, {"windows": "generation-0002"}, ())
    assert files_that_hold(lakehouse, "evangeline") == []
    assert rows("windows") == [("ann", minutes(0), 1)]
    summary = run_job(lakehouse, job, Incremental(advance_to=minutes(90)), runners=spark)
    assert summary.counts.events == 1
    assert rows("windows") == [("ann", minutes(0), 1), ("ann", minutes(30), 1), ("bob", minutes(30), 1)]
    assert (summary.totals.events, summary.totals.open_events, len(rows("late.windows"))) == (4, 0, 1)
    assert erased_rows(lakehouse.events("clicks")) == 5
    audited = pl.read_delta(str(lakehouse.monitoring("edits"))).row(0, named=True)
    assert (audited["who"], audited["why"], audited["what"]) == (BY.who, BY.why, "erased")
    assert json.loads(audited["keys"]) == {"user": digest('["evangeline"]')}
    assert json.loads(audited["rows"])["events.clicks"] == 5


@pytest.mark.parametrize(
    "point",
    [
        "seed: staged",
        "erasure: files written",
        "erasure: committed",
        "seed: tables carried",
        "done: after",
        "generation: before it goes live",
        "generation: live",
    ],
)
@pytest.mark.parametrize("count", [1, 2])
def test_an_erasure_that_was_cut_off_is_finished_by_the_same_call(
    spark, lakehouse, land, rows, minutes, cut_power, point, count
):
    job = windows()
    land(("ann", 1), ("evangeline", 2), ("bob", 31), ("evangeline", 32))
    run_job(lakehouse, job, runners=spark)
    cut_power(point, lambda: erase(spark, lakehouse, CLICKS, [job], EVA), count)
    erase(spark, lakehouse, CLICKS, [job], EVA)
    assert files_that_hold(lakehouse, "evangeline") == []
    summary = run_job(lakehouse, job, Incremental(advance_to=minutes(90)), runners=spark)
    assert rows("windows") == [("ann", minutes(0), 1), ("bob", minutes(30), 1)]
    assert (summary.totals.events, summary.totals.open_events) == (2, 0)


def test_an_erased_table_keeps_its_other_rows_and_no_old_version(spark, lakehouse, land):
    land(("ann", 1), ("evangeline", 2))
    land(("evangeline", 3))
    table = lakehouse.events("clicks")
    assert erase_rows(table, pl.col("user") == "evangeline").rows == 2
    assert erase_rows(table, pl.col("user") == "evangeline").rows == 0
    assert forget(table) == 2
    assert pl.read_delta(str(table))["user"].to_list() == ["ann"]
    assert len(list(table.glob("*.parquet"))) == 1


def test_a_key_s_state_is_corrected_and_what_was_done_is_written_down(spark, lakehouse, land, rows, minutes):
    land(("ann", 1), ("bob", 2))
    run_job(lakehouse, windows(), runners=spark)
    edit = Edit(("ann",), {"clicks": "clicks + 41"}, BY)
    shown = edit_state(spark, lakehouse, windows(), edit, dry_run=True)
    assert (shown.generation, shown.rows_after["clicks"].to_list()) == (None, [42])
    edited = edit_state(spark, lakehouse, windows(), edit)
    assert (edited.generation, edited.rows_before["clicks"].to_list()) == ("generation-0002", [1])
    run_job(lakehouse, windows(), Incremental(advance_to=minutes(90)), runners=spark)
    assert rows("windows") == [("ann", minutes(0), 42), ("bob", minutes(0), 1)]
    audited = pl.read_delta(str(lakehouse.monitoring("edits"))).row(0, named=True)
    assert (audited["what"], audited["generation"]) == ("corrected", "generation-0002")
    assert json.loads(audited["keys"]) == [{"user": "ann"}]


def test_a_key_s_state_is_removed(spark, lakehouse, land, rows, minutes):
    land(("ann", 1), ("bob", 2))
    run_job(lakehouse, windows(), runners=spark)
    edit_state(spark, lakehouse, windows(), Edit(("ann",), {}, BY))
    summary = run_job(lakehouse, windows(), Incremental(advance_to=minutes(90)), runners=spark)
    assert rows("windows") == [("bob", minutes(0), 1)]
    assert summary.totals.events == 1


def test_who_and_why_are_asked_for():
    with pytest.raises(KeyfoldError, match="--why is empty"):
        Author("me", " ")
