"""A changed job, tried beside the live one; late events, read again in their place. On Spark, which compares."""

from datetime import timedelta

import pytest

from keyfold.errors import KeyfoldError
from keyfold.keyed.generation.run_mode import Incremental
from keyfold.keyed.reporting.conservation import check_conservation
from keyfold.keyed.runner import run_job
from keyfold.lakehouse import create_table
from keyfold.lakehouse.commits import append_files
from keyfold.lakehouse.data_files import write_data_file
from keyfold.state.changing.moving import move
from keyfold.state.changing.promoting import promote
from keyfold.state.changing.trying import frame_of, redrive, try_job
from keyfold.state.differences.comparing import compare_tables
from tests.keyfold.keyed.conftest import land, minutes, rows, without_spark
from tests.keyfold.keyed.toy_jobs import CLICK, clicks, windows

__all__ = ["land", "minutes", "rows", "without_spark"]


def table_of(folder, *events):
    create_table(folder, CLICK)
    if events:
        append_files(folder, [write_data_file(clicks(*events), folder, CLICK)], "test", 0)
    return folder


def test_tables_are_compared_row_by_row_however_often_a_row_is_there(spark, tmp_path):
    before = table_of(tmp_path / "a", ("ann", 1), ("ann", 1), ("bob", 2), ("cat", 3))
    after = table_of(tmp_path / "b", ("ann", 1), ("bob", 5), ("cat", 3), ("dan", 4))
    found = compare_tables(spark, "clicks", before, after, ("user",))
    assert (found.rows_before, found.rows_after, found.same) == (4, 4, 2)
    assert (found.added, found.removed, found.changed, found.changed_columns) == (1, 1, 1, {"at": 1})
    told = found.samples.select("difference", "user").rows()
    assert told == [("changed, old", "bob"), ("changed, new", "bob"), ("removed", "ann"), ("added", "dan")]
    assert compare_tables(spark, "clicks", before, before, ("user",)).is_none
    nothing = compare_tables(spark, "clicks", tmp_path / "none", after, ("user",))
    assert (nothing.added, nothing.removed, nothing.rows_before) == (4, 0, 0)


def test_where_no_event_was_late_there_is_nothing_to_redrive(spark, lakehouse, land, minutes):
    land(("ann", 1), ("bob", 25))
    run_job(spark, lakehouse, windows())
    with pytest.raises(KeyfoldError, match="no event was late"):
        redrive(spark, lakehouse, windows())
    land(("ann", 2), ("eve", 3))
    run_job(spark, lakehouse, windows())
    with pytest.raises(KeyfoldError, match="no event was late since 2026-01-01 00:10"):
        redrive(spark, lakehouse, windows(), since=minutes(10))


# tests/keyfold/state/test_tools_on_several_inputs.py redrives, promotes and moves on Spark too.
@pytest.mark.slow
def test_late_events_are_redriven_looked_at_and_promoted_and_a_move_keeps_what_came_of_it(
    spark, lakehouse, land, rows, minutes
):
    job = windows()
    land(("ann", 1), ("bob", 25))
    run_job(spark, lakehouse, job)
    land(("ann", 2), ("eve", 3))
    run_job(spark, lakehouse, job)
    found = redrive(spark, lakehouse, job)
    assert (found.late_before, found.late_after) == (2, 0)
    own, late = found.trial.tables
    assert (own.same, own.changed, own.added, own.removed) == (0, 1, 1, 0)
    assert (late.rows_before, late.rows_after, late.removed) == (2, 0, 2)
    assert frame_of(found.trial.tables)["table"].to_list() == ["windows", "late.windows"]
    assert rows("windows") == [("ann", minutes(0), 1)]
    promote(lakehouse, "windows", "redrive")
    assert rows("windows") == [("ann", minutes(0), 2), ("eve", minutes(0), 1)]
    moved = move(spark, lakehouse, windows(key_groups=7), partitions=3)
    assert (moved.rows_before, moved.rows, moved.table_rows["windows"]) == (1, 1, 2)
    land(("bob", 26))
    summary = run_job(spark, lakehouse, windows(key_groups=7), Incremental(advance_to=minutes(90)))
    assert rows("windows")[1:] == [("bob", minutes(20), 2), ("eve", minutes(0), 1)]
    assert (summary.totals.events, summary.totals.open_events) == (5, 0)
    counted = check_conservation(spark, lakehouse, windows(key_groups=7))
    assert counted.balanced
    assert counted.events_read == 5


# As above: a redriven job is tried on all of history.
@pytest.mark.slow
def test_a_tried_job_tells_what_it_makes_of_history(spark, lakehouse, land, rows, minutes):
    land(("ann", 1), ("bob", 25))
    run_job(spark, lakehouse, windows())
    trial = try_job(spark, lakehouse, windows(watermark_delay=timedelta(minutes=30)), "patient")
    assert (trial.live, trial.tables[0].removed, trial.tables[0].added) == ("generation-0001", 1, 0)
    assert rows("windows@patient") == []
    assert rows("windows") == [("ann", minutes(0), 1)]
