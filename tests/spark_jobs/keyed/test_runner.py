"""The engine on Spark: time, exactly once, failures, generations."""

import json
import re
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import polars as pl
import pytest
from deltalake import DeltaTable

from spark_jobs import append
from spark_jobs.errors import KeyfoldError
from spark_jobs.keyed import sink
from spark_jobs.keyed.conservation import check_conservation
from spark_jobs.keyed.contract import Step
from spark_jobs.keyed.generations import live_generation
from spark_jobs.keyed.runner import RunOptions, run_continuously, run_job
from spark_jobs.lakehouse import Lakehouse, exclusive
from tests.spark_jobs.keyed.toy_jobs import (
    START,
    WAIT,
    clicks,
    stale_buffer,
    sum_clicks,
    totals,
    windows,
    windows_per_key,
    windows_step,
)

FILE_BY_FILE = RunOptions(max_bytes_per_batch="1b")


@pytest.fixture
def land(lakehouse):
    """Put clicks into the event table, one file a call."""

    def land(*rows):
        lakehouse.events("clicks").parent.mkdir(parents=True, exist_ok=True)
        clicks(*rows).write_delta(str(lakehouse.events("clicks")), mode="append")

    return land


def rows(lakehouse, table):
    return sorted(pl.read_delta(str(lakehouse.table(table))).rows())


def minutes(count):
    return START + timedelta(minutes=count)


def test_a_run_before_any_ingest_says_what_to_do(spark, lakehouse):
    with pytest.raises(KeyfoldError, match="keyfold ingest clicks"):
        run_job(spark, lakehouse, windows())


def test_state_closes_when_its_timer_is_due_and_not_before(spark, lakehouse, land):
    land(("ann", 0), ("ann", 4), ("bob", 12))
    summary = run_job(spark, lakehouse, windows())
    assert summary.watermark == minutes(7)
    assert (summary.counts.events, summary.totals.open_events) == (3, 3)
    run_job(spark, lakehouse, windows(), advance_to=minutes(10) - timedelta(milliseconds=1))
    assert rows(lakehouse, "windows") == []
    run_job(spark, lakehouse, windows(), advance_to=minutes(10))
    assert rows(lakehouse, "windows") == [("ann", START, 2)]


def test_new_events_close_what_is_due_within_the_same_run(spark, lakehouse, land):
    land(("ann", 0))
    land(("bob", 60))
    summary = run_job(spark, lakehouse, windows())
    assert rows(lakehouse, "windows") == [("ann", START, 1)]
    assert summary.counts.rows["windows"] == 1


def test_a_late_event_goes_to_its_open_state_or_else_to_the_late_table(spark, lakehouse, land):
    land(("ann", 0), ("bob", 12))
    run_job(spark, lakehouse, windows())
    land(("ann", 1), ("eve", 2), ("eve", 3))
    summary = run_job(spark, lakehouse, windows(), advance_to=minutes(60))
    assert rows(lakehouse, "windows") == [("ann", START, 2), ("bob", minutes(10), 1)]
    assert [row[:2] for row in rows(lakehouse, "late.windows")] == [("eve", minutes(2)), ("eve", minutes(3))]
    assert summary.totals.rows["late.windows"] == 2
    found = check_conservation(spark, lakehouse, windows())
    assert (found.events_read, found.in_outputs, found.open_events, found.late) == (5, 3, 0, 2)
    assert found.balanced


def test_a_run_without_news_advances_no_event_time_unless_the_job_asks_for_it(spark, lakehouse, land):
    land(("ann", 0))
    run_job(spark, lakehouse, windows())
    arrive_earlier(lakehouse, timedelta(hours=1))
    assert run_job(spark, lakehouse, windows()).watermark == minutes(-5)
    assert rows(lakehouse, "windows") == []


def test_on_a_silent_stream_time_goes_on_and_open_state_closes(spark, lakehouse, land):
    job = windows(idle_after=timedelta(minutes=2))
    land(("ann", 0))
    run_job(spark, lakehouse, job)
    run_job(spark, lakehouse, job)
    assert rows(lakehouse, "windows") == []
    arrive_earlier(lakehouse, timedelta(minutes=14))
    run_job(spark, lakehouse, job)
    assert rows(lakehouse, "windows") == []
    arrive_earlier(lakehouse, timedelta(minutes=2))
    summary = run_job(spark, lakehouse, job)
    assert rows(lakehouse, "windows") == [("ann", START, 1)]
    assert summary.watermark is not None
    assert minutes(11) <= summary.watermark < minutes(13)


def arrive_earlier(lakehouse, by):
    """Let time pass: what came, came that much longer ago."""
    generation = live_generation(lakehouse, "windows")
    assert generation
    path = generation.folder / "arrival.json"
    arrival = json.loads(path.read_text())
    arrival["arrived_at"] = (datetime.fromisoformat(arrival["arrived_at"]) - by).isoformat()
    path.write_text(json.dumps(arrival))


def test_processing_time_flushes_what_is_stale_though_no_event_comes(spark, lakehouse, land):
    land(("ann", 0), ("bob", 1))
    run_job(spark, lakehouse, stale_buffer())
    assert rows(lakehouse, "stale_buffer") == []
    time.sleep(WAIT.total_seconds())
    summary = run_job(spark, lakehouse, stale_buffer())
    assert rows(lakehouse, "stale_buffer") == [("ann", 1), ("bob", 1)]
    assert summary.watermark == minutes(-4)


BUSY = [("ann", 0), ("bob", 1), ("ann", 5), ("eve", 9), ("bob", 20), ("ann", 21), ("eve", 40), ("ann", 41)]


@pytest.mark.parametrize("make", [windows, windows_per_key, lambda: windows(combine=sum_clicks)])
def test_one_batch_or_many_combined_or_not_by_table_or_by_key_the_answer_is_one(spark, lakehouse, land, make):
    for start in range(0, len(BUSY), 2):
        land(*BUSY[start : start + 2])
    summary = run_job(spark, lakehouse, make(), options=FILE_BY_FILE, advance_to=minutes(600))
    assert len(summary.batch_seconds) > 4
    assert rows(lakehouse, "windows") == [
        ("ann", START, 2),
        ("ann", minutes(20), 1),
        ("ann", minutes(40), 1),
        ("bob", START, 1),
        ("bob", minutes(20), 1),
        ("eve", START, 1),
        ("eve", minutes(40), 1),
    ]
    assert check_conservation(spark, lakehouse, make()).balanced


def test_a_combined_batch_reaches_the_step_with_fewer_rows(spark, lakehouse, land):
    land(*[("ann", 0)] * 50)
    summary = run_job(spark, lakehouse, windows(combine=sum_clicks))
    assert summary.counts.events == 1
    run_job(spark, lakehouse, windows(combine=sum_clicks), advance_to=minutes(60))
    assert rows(lakehouse, "windows") == [("ann", START, 50)]


def test_an_upsert_table_holds_the_last_row_of_a_key(spark, lakehouse, land):
    land(("ann", 0), ("bob", 1))
    run_job(spark, lakehouse, totals())
    land(("ann", 2), ("ann", 3))
    run_job(spark, lakehouse, totals())
    assert rows(lakehouse, "totals") == [("ann", 3), ("bob", 1)]
    assert rows(lakehouse, "changes") == [("ann", 1), ("ann", 2), ("bob", 1)]


@pytest.mark.parametrize(
    ("crash", "few"),
    [
        ("before_the_tables", append.FEW),
        ("between_the_tables", append.FEW),
        ("between_the_tables", 0),
        ("before_the_counts", append.FEW),
        ("before_the_commit", append.FEW),
    ],
)
def test_a_run_that_dies_while_writing_is_resumed_without_loss_or_doubling(
    spark, lakehouse, land, monkeypatch, crash, few
):
    monkeypatch.setattr(append, "FEW", few)
    land(("ann", 0), ("bob", 1))
    run_job(spark, lakehouse, totals())
    land(("ann", 2), ("eve", 3))

    def die(*_):
        raise RuntimeError("power cut")

    def die_at_the_second_table(rows, count, table, *rest, write=sink._write_once):
        if table.name == "changes":
            die()
        write(rows, count, table, *rest)

    with monkeypatch.context() as patch:
        options = RunOptions(on_batch=die if crash == "before_the_commit" else None)
        if crash == "before_the_tables":
            patch.setattr(sink, "_write_once", die)
        if crash == "between_the_tables":
            patch.setattr(sink, "_write_once", die_at_the_second_table)
        if crash == "before_the_counts":
            patch.setattr(sink, "_record", die)
        with pytest.raises(KeyfoldError, match="power cut"):
            run_job(spark, lakehouse, totals(), options=options)
    summary = run_job(spark, lakehouse, totals())
    assert rows(lakehouse, "totals") == [("ann", 2), ("bob", 1), ("eve", 1)]
    assert rows(lakehouse, "changes") == [("ann", 1), ("ann", 1), ("bob", 1), ("eve", 1)]
    assert summary.totals.events == 4
    assert summary.totals.rows == {"totals": 4, "changes": 4, "late.totals": 0}


def test_a_step_that_raises_names_job_key_group_and_a_key_and_the_next_run_resumes(spark, lakehouse, land):
    def fail(state, events, clock):
        raise ZeroDivisionError("no clicks")

    land(("ann", 0))
    with pytest.raises(
        KeyfoldError, match=r"job windows, key group \d, a key of it {'user': 'ann'}: ZeroDivisionError: no"
    ):
        run_job(spark, lakehouse, windows(step=fail))
    assert run_job(spark, lakehouse, windows()).totals.events == 1


def test_a_step_that_answers_in_other_columns_is_told_which(spark, lakehouse, land):
    def misspelt(state, events, clock):
        step = windows_step(state, events, clock)
        return Step(state=step.state.rename({"clicks": "clix"}), output=step.output)

    land(("ann", 0))
    with pytest.raises(KeyfoldError, match="state misses clicks; has clix besides its columns"):
        run_job(spark, lakehouse, windows(step=misspelt))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"key_groups": 8}, "key_groups 4 and now runs with 8"),
        ({"schema_version": 2}, "schema_version 1 and now runs with 2"),
        ({"parameters": {"gap": 5}}, "parameters {'gap': None} and now runs with {'gap': 5}"),
    ],
)
def test_a_setting_that_differs_from_birth_is_refused_with_the_remedy(spark, lakehouse, land, change, named):
    land(("ann", 0))
    run_job(spark, lakehouse, windows())
    with pytest.raises(KeyfoldError, match=f"{re.escape(named)}.*--full-refresh"):
        run_job(spark, lakehouse, windows(**change))
    assert run_job(spark, lakehouse, windows(**change), mode="full_refresh").generation == "generation-0002"
    assert run_job(spark, lakehouse, windows(**change)).counts.events == 0


def test_a_moved_lakehouse_and_a_lost_checkpoint_are_refused(spark, lakehouse, land, tmp_path):
    land(("ann", 0))
    run_job(spark, lakehouse, windows())
    moved = Lakehouse(tmp_path / "moved")
    shutil.copytree(lakehouse.home, moved.home)
    with pytest.raises(KeyfoldError, match=r"made at .* and now stands at .*move it back"):
        run_job(spark, moved, windows())
    shutil.rmtree(lakehouse.job("windows") / "generation-0001" / "checkpoint")
    with pytest.raises(KeyfoldError, match=r"is missing although .* --full-refresh"):
        run_job(spark, lakehouse, windows())


def test_a_full_refresh_reads_all_again_and_goes_live_only_when_it_is_done(spark, lakehouse, land):
    land(("ann", 0), ("bob", 60))
    run_job(spark, lakehouse, windows())

    def die(*_):
        raise RuntimeError("power cut")

    def doubled(state, events, clock):
        return windows_step(state, events.with_columns(clicks=pl.col("clicks") * 2), clock)

    with pytest.raises(KeyfoldError, match="power cut"):
        run_job(spark, lakehouse, windows(step=doubled), mode="full_refresh", options=RunOptions(on_batch=die))
    assert rows(lakehouse, "windows") == [("ann", START, 1)]
    summary = run_job(spark, lakehouse, windows(step=doubled), mode="full_refresh")
    assert rows(lakehouse, "windows") == [("ann", START, 2)]
    assert (summary.generation, summary.totals.events) == ("generation-0002", 2)


def test_two_runs_never_share_a_checkpoint(spark, lakehouse, land):
    land(("ann", 0))
    with exclusive(lakehouse.job("windows"), "job windows"), pytest.raises(KeyfoldError, match="already running"):
        run_job(spark, lakehouse, windows())


def test_a_lost_row_or_a_doubled_one_breaks_conservation(spark, lakehouse, land):
    land(("ann", 0), ("bob", 60))
    run_job(spark, lakehouse, windows())
    assert check_conservation(spark, lakehouse, windows()).balanced
    output = str(lakehouse.table("windows"))
    pl.read_delta(output).write_delta(output, mode="append")
    assert not check_conservation(spark, lakehouse, windows()).balanced
    pl.read_delta(output).clear().write_delta(output, mode="overwrite")
    assert not check_conservation(spark, lakehouse, windows()).balanced


def test_a_continuous_run_takes_what_comes_and_ends_when_told(spark, lakehouse, land):
    land(("ann", 0))
    stop, seen = threading.Event(), threading.Event()
    options = RunOptions(on_batch=lambda _, counts: seen.set() if counts.rows["windows"] else None)
    run = {"interval": timedelta(milliseconds=200), "stop": stop, "options": options}
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run_continuously, spark, lakehouse, windows(), **run)
        land(("bob", 60))
        closed_while_running = seen.wait(60)
        stop.set()
        summary = running.result(60)
    assert closed_while_running
    assert rows(lakehouse, "windows") == [("ann", START, 1)]
    assert summary.totals.events == 2


def test_events_that_were_changed_behind_a_job_s_back_are_named_with_the_remedy(spark, lakehouse, land):
    land(("ann", 0), ("bob", 12))
    run_job(spark, lakehouse, windows())
    DeltaTable(str(lakehouse.events("clicks"))).delete("user = 'ann'")
    with pytest.raises(KeyfoldError, match=r"by other than ingest.*--full-refresh"):
        run_job(spark, lakehouse, windows())
    assert run_job(spark, lakehouse, windows(), mode="full_refresh").counts.events == 1
