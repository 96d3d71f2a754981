"""Runs of the engine: time, late events, modes, failures. Without Spark where Spark adds nothing."""

import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta

import polars as pl
import pytest
from deltalake import DeltaTable

from keyfold.errors import KeyfoldError, Unreachable
from keyfold.journal.clock import read_clock
from keyfold.keyed import job_run
from keyfold.keyed.conservation import Conservation, check_conservation
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.generation.run_mode import FullRefresh
from keyfold.keyed.job.inputs import STEP_DECIDES
from keyfold.keyed.job_run import RunOptions, run_continuously, run_job
from keyfold.keyed.plans import input_tables
from keyfold.maintenance.compaction import compact
from keyfold.runners import Runners
from keyfold.runners.local_runner import LocalRunner
from tests.keyfold.keyed.toy_jobs import windows
from tests.lake import Lake
from tests.shop import START
from tests.waiting import wait_until

BUSY = [("ann", 0), ("bob", 1), ("ann", 5), ("eve", 9), ("bob", 20), ("ann", 21), ("eve", 40), ("ann", 41)]


@pytest.fixture
def hours_later(monkeypatch):
    """Let time pass: both clocks of the machine go on."""

    def pass_by(hours, jump=timedelta(0)):
        def later():
            now = read_clock()
            gone = timedelta(hours=hours)
            return now.model_copy(update={"wall": now.wall + gone + jump, "uptime": now.uptime + gone.total_seconds()})

        monkeypatch.setattr(job_run, "read_clock", later)

    return pass_by


def test_a_run_in_which_nothing_came_and_nothing_is_due_makes_no_batch_and_time_goes_on(lake, hours_later, minutes):
    job = windows(idle_timeout=timedelta(minutes=3))
    lake.click(("ann", 0), ("ann", 60))
    first = lake.run(job)
    hours_later(4 / 60)
    again = lake.run(job)
    assert (len(first.batch_seconds), len(again.batch_seconds)) == (1, 0)
    assert again.watermark is not None
    assert minutes(60 - 5 + 4) <= again.watermark < minutes(60 - 5 + 5)


def test_an_idle_timeout_that_is_shorter_than_the_usual_gap_is_warned_of(lake, hours_later):
    job = windows(idle_timeout=timedelta(minutes=10))
    warned: list[str] = []
    for hour in range(5):
        hours_later(hour)
        lake.click(("ann", hour * 60))
        warned = [*lake.run(job).warnings]
    # Give or take the seconds that the runs themselves take, from a bucket and on a busy machine.
    assert re.search(r"events usually come every 1:00:0\d, and idle_timeout is 0:10:00", warned[0])


def test_progress_says_how_much_is_done_of_all(lake):
    told = []
    for start in range(0, len(BUSY), 2):
        lake.click(*BUSY[start : start + 2])
    options = RunOptions(max_bytes_per_batch=1, on_batch=lambda progress, _: told.append(progress))
    lake.run(windows(), options=options)
    assert [one.batch for one in told] == list(range(1, told[0].batches + 1))
    assert [one.total for one in told] == [len(BUSY)] * len(told)
    assert told[-1].done == len(BUSY)
    assert told[-1].seconds_left == 0


def test_on_spark_a_step_that_raises_names_job_key_group_and_a_key_and_the_next_run_resumes(spark, lakehouse, land):
    def fail(state, events, clock):
        raise ZeroDivisionError("no clicks")

    land(("ann", 0))
    with pytest.raises(
        KeyfoldError, match=r"job windows, key group \d, a key of it {'user': 'ann'}: ZeroDivisionError: no"
    ):
        run_job(lakehouse, windows(step=fail), runners=spark)
    assert run_job(lakehouse, windows(), runners=spark).totals.events == 1


def test_a_row_without_a_key_is_refused_with_its_file(lake):
    lake.click(("ann", 0), (None, 1))
    with pytest.raises(KeyfoldError, match=r"events/clicks/.*parquet has rows without a value in user"):
        lake.run(windows())


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"key_groups": 8}, "key_groups: 4 → 8"),
        ({"version": 2}, "version of state: 1 → 2"),
        ({"parameters": {"gap": 5}}, "parameter gap: None → 5"),
        ({"delay": "9m"}, "input clicks: delay: 5m → 9m"),
        ({"final_at": STEP_DECIDES}, "input clicks: final_at: "),
    ],
)
def test_a_setting_that_differs_is_refused_with_the_remedy(lake, change, named):
    lake.click(("ann", 0))
    lake.run(windows())
    with pytest.raises(KeyfoldError, match=f"{re.escape(named)}.*--full-refresh"):
        lake.run(windows(**change))
    assert lake.run(windows(**change), FullRefresh()).generation == "generation-0002"
    assert lake.run(windows(**change)).counts.events == 0


def test_two_runs_never_share_a_journal(lake, lakehouse):
    lake.click(("ann", 0))
    with lakehouse.job("windows").exclusive("job windows"), pytest.raises(KeyfoldError, match="already running"):
        lake.run(windows())


def test_a_lost_row_or_a_doubled_one_breaks_conservation(lake, lakehouse):
    lake.click(("ann", 0), ("bob", 60))
    lake.run(windows())
    assert check_conservation(lakehouse, windows()).balanced
    output = str(lakehouse.table("windows"))
    pl.read_delta(output).write_delta(output, mode="append")
    assert not check_conservation(lakehouse, windows()).balanced
    pl.read_delta(output).clear().write_delta(output, mode="overwrite")
    assert not check_conservation(lakehouse, windows()).balanced


def test_state_is_counted_in_a_folder_of_any_name(tmp_path):
    lake = Lake(tmp_path / "a home, 100% é")
    lake.click(("ann", 0), ("bob", 30))
    lake.run(windows())
    assert check_conservation(lake.lakehouse, windows()) == Conservation(2, 1, 1, 0, 2)


def test_inputs_that_are_counted_apart_are_something_to_compare():
    assert Conservation(0, 0, 0, 0, 0, by_input={"clicks": (0, 0)}).is_empty
    assert not Conservation(0, 0, 0, 0, 0, by_input={"clicks": (3, 3)}).is_empty


def test_events_before_1970_are_not_late_and_are_counted(lake, lakehouse, minutes):
    sixty_years = 60 * 365 * 24 * 60
    lake.click(("ann", -sixty_years), ("bob", 60 - sixty_years))
    summary = lake.run(windows())
    assert (summary.counts.rows["windows"], summary.counts.rows["late.windows"]) == (1, 0)
    found = check_conservation(lakehouse, windows())
    assert (found.events_read, found.in_outputs, found.open_events) == (2, 1, 1)
    assert not found.is_empty


def test_on_spark_a_continuous_run_takes_what_comes_sees_silence_and_ends_when_told(
    spark, lakehouse, land, rows, minutes
):
    job = windows(idle_timeout=timedelta(seconds=2), delay=timedelta(0))
    land(("ann", 0))
    land(("ann", 9.99))
    stop = threading.Event()
    run = {"every": timedelta(milliseconds=200), "stop": stop}
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run_continuously, lakehouse, job, runners=spark, **run)
        wait_for(lambda: rows("windows") == [("ann", START, 2)])
        land(("bob", 60))
        wait_for(lambda: reached(lakehouse) >= minutes(60))
        stop.set()
        summary = running.result(60)
    assert summary.totals.events == 3
    batches = list((lakehouse.job("windows") / "generation-0001" / "journal").glob("*.plan.json"))
    assert len(batches) <= 4


def test_a_continuous_run_plans_no_more_often_after_a_commit_without_rows(lake, lakehouse, monkeypatch):
    lake.click(("ann", 0))
    lake.click(("ann", 1))
    planned, plan_run = [], job_run.plan_run
    monkeypatch.setattr(job_run, "plan_run", lambda *given: planned.append(given) or plan_run(*given))
    monkeypatch.setattr(input_tables, "LONGEST_WAIT", timedelta(hours=1))
    stop = threading.Event()
    every = timedelta(milliseconds=10)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run_continuously, lakehouse, windows(), runners=lake.session, every=every, stop=stop)
        try:
            wait_for(lambda: events_read(lakehouse) == 2)
            before = DeltaTable(str(lakehouse.events("clicks"))).version()
            compact(lakehouse.events("clicks"), "at")
            assert DeltaTable(str(lakehouse.events("clicks"))).version() > before
            wait_for(lambda: len(planned) >= 2)
            time.sleep(0.5)
            # One for the rows, and one that finds the compaction; another if it looked for rows in between.
            assert len(planned) <= 3
            lake.click(("eve", 60))
            wait_for(lambda: events_read(lakehouse) == 3)
        finally:
            stop.set()
        assert running.result(60).totals.events == 3


class OfJavaThatEnds(LocalRunner):
    ended = False

    def check_alive(self):
        if self.ended:
            raise Unreachable("Spark's Java process has ended")


def test_a_continuous_run_to_which_nothing_comes_notices_that_its_java_is_gone(lake, lakehouse, monkeypatch):
    lake.click(("ann", 0), ("ann", 30))
    lake.run(windows())
    java = OfJavaThatEnds()
    runners, stop = Runners("spark"), threading.Event()
    # This process does the work in its place; Java is only asked whether it is there.
    monkeypatch.setattr(runners, "_spark", java)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(
            run_continuously, lakehouse, windows(), every=timedelta(hours=1), stop=stop, runners=runners
        )
        try:
            lake.click(("eve", 60))
            wait_for(lambda: events_read(lakehouse) == 3)
            assert not running.done()
            java.ended = True
            with pytest.raises(KeyfoldError, match="Spark's Java process has ended"):
                running.result(60)
        finally:
            stop.set()
    # The job is free again, and nothing is lost.
    lake.click(("bob", 90))
    assert lake.run(windows()).totals.events == 4


def events_read(lakehouse):
    live = live_generation(lakehouse, "windows")
    done = live.journal.last_done() if live else None
    return done.totals.events if done else 0


def reached(lakehouse):
    live = live_generation(lakehouse, "windows")
    return (live and job_run.watermark(live)) or START


def wait_for(is_so):
    def found():
        with suppress(KeyfoldError):  # the tables are not there yet
            return is_so()

    wait_until(found)


def test_a_clock_that_is_set_amid_a_continuous_run_is_said_and_not_followed(lake, lakehouse, monkeypatch):
    set_by = timedelta(0)

    def clock():
        reading = read_clock()
        return reading.model_copy(update={"wall": reading.wall + set_by})

    monkeypatch.setattr(job_run, "read_clock", clock)
    stop, job = threading.Event(), windows(idle_timeout=timedelta(hours=1))
    lake.click(("ann", 0))
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run_continuously, lakehouse, job, stop=stop, runners=lake.session)
        try:
            for count, by in enumerate([timedelta(0), timedelta(hours=-1), timedelta(hours=3)], 1):
                set_by = by
                lake.click(("bob", count))
                wait_for(lambda count=count: events_read(lakehouse) == count + 1)
        finally:
            stop.set()
        told = " ".join(running.result(60).warnings)
    assert "jumped back by 1:00:00" in told
    assert "jumped ahead by 4:00:00" in told
    generation = live_generation(lakehouse, "windows")
    done = generation and generation.journal.last_done()
    assert generation
    assert done
    plans = [generation.journal.plan(batch) for batch in range(done.batch + 1)]
    times = [plan.clock.processing_time for plan in plans if plan]
    assert times == sorted(times)
    assert times[-1] - times[0] < timedelta(minutes=5)
    # Silence would have moved event time on: nothing is late.
    assert done.total_rows["late.windows"] == 0
