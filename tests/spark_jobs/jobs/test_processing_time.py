"""Timeouts in processing time, of every job that has one: how often one looks, and a crash, change no row."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from keyfold.journal.clock import Reading
from keyfold.keyed import job_run
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.job.building import build_job
from keyfold.keyed.job_run import RunOptions, run_job
from keyfold.lakehouse import Lakehouse, fail_points
from spark_jobs.jobs.registry import JOBS
from spark_jobs.streams import STREAMS
from tests.keyfold.state.job_histories import EVENTS, put
from tests.keyfold.state.local_state import frames_of_state
from tests.lake import Lake

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
FILE_BY_FILE = RunOptions(max_bytes_per_batch=1)
OF_A_BATCH = [point for point in fail_points.POINTS if point.startswith(("plan", "work", "done", "commit", "merge"))]


@dataclass(frozen=True)
class Silent:
    """A job that takes half a minute of processing time for silence."""

    name: str
    given: dict = field(default_factory=dict)

    def job(self):
        more = {"timeout_in": "processing_time", "key_groups": 2, "delay": "10m"}
        return build_job(JOBS[self.name], {**more, **self.given})

    def runs(self):
        """What six runs bring, two of them nothing: of a few keys each, which speak in some runs and not in others."""
        job = self.job()
        events = EVENTS[job.only_input.stream.name](1).sort(job.event_time)
        keys = events.select(job.key).unique(maintain_order=True).head(6).with_row_index("#key")
        events = events.join(keys, on=job.key, how="inner", maintain_order="left").head(240)
        parts = [
            part.filter(pl.col("#key") % 3 != number % 3).select(STREAMS[job.only_input.stream.name].schema.names)
            for number, part in enumerate(events.iter_slices(-(-events.height // 4)))
        ]
        nothing = parts[0].clear()
        return [parts[0], parts[1], nothing, parts[2], nothing, parts[3]]

    def __str__(self):
        return "-".join([self.name, *map(str, self.given.values())])


EVERY = [
    Silent("moving_averages", {"timeout": "30s", "n_readings": 3}),
    Silent("ride_summaries", {"timeout": "30s", "close": "complete"}),
    Silent("purchase_totals", {"expire_after": "30s", "order": "event_time"}),
]
SECONDS = (0, 20, 35, 55, 90, 100)
"""When the runs are: some keys are silent for too long in between, others are not."""


@pytest.fixture
def at(monkeypatch):
    """Set the machine's clocks so many seconds after noon."""

    def at(seconds):
        reading = Reading(wall=NOON + seconds * SECOND, uptime=1e6 + seconds, boot="this one")
        monkeypatch.setattr(job_run, "read_clock", lambda: reading)

    return at


def run_all(spark, lakehouse, job, runs, at, cut=lambda number, run: run()):
    for number, (second, part) in enumerate(zip(SECONDS, runs, strict=True)):
        at(second)
        if part.height or number == 0:
            put(lakehouse, job.only_input.stream.name, part)
        cut(number, lambda: run_job(lakehouse, job, options=FILE_BY_FILE, runners=spark))
    at(200)
    run_job(lakehouse, job, runners=spark)


def assert_same_on_disk(one, other, job):
    for table in job.tables:
        found, expected = (pl.read_delta(str(lakehouse.table(table.name))) for lakehouse in (one, other))
        assert_frame_equal(found, expected, check_row_order=False, check_exact=True)


@pytest.mark.parametrize("silent", EVERY, ids=str)
def test_a_crash_replays_the_processing_time_of_its_plan_and_gives_the_same_rows(
    without_spark, tmp_path, at, cut_power, silent
):
    job, runs = silent.job(), silent.runs()
    whole, broken = Lakehouse(tmp_path / "whole"), Lakehouse(tmp_path / "broken")
    run_all(without_spark, whole, job, runs, at)
    # Every job at other points, every point with some job.
    points = [point for place, point in enumerate(OF_A_BATCH) if (place + EVERY.index(silent)) % 3 == 0]

    def cut(number, work):
        for point in points if number == 3 else ():
            cut_power(point, work)
        live = live_generation(broken, job.name)
        if number == 3 and live is not None and live.journal.pending():
            # What is planned keeps its time, however long after it is worked on.
            at(SECONDS[number] + 10)
        work()

    run_all(without_spark, broken, job, runs, at, cut)
    assert_same_on_disk(broken, whole, job)


def test_a_run_for_which_nothing_came_closes_what_has_become_stale(without_spark, tmp_path, at):
    silent = EVERY[0]
    job, lakehouse = silent.job(), Lakehouse(tmp_path)
    put(lakehouse, job.only_input.stream.name, silent.runs()[0])
    at(0)
    run_job(lakehouse, job, runners=without_spark)
    at(29.9)
    assert run_job(lakehouse, job, runners=without_spark).batch_seconds == ()
    at(30)
    closed = run_job(lakehouse, job, runners=without_spark)
    assert len(closed.batch_seconds) == 1
    assert closed.totals.open_events == 0
    at(1000)
    assert run_job(lakehouse, job, runners=without_spark).batch_seconds == ()


def test_all_that_a_run_reads_came_at_one_moment_so_history_closes_only_when_silence_follows(
    without_spark, tmp_path, at
):
    silent = EVERY[0]
    job, lakehouse = silent.job(), Lakehouse(tmp_path)
    for part in silent.runs():
        put(lakehouse, job.only_input.stream.name, part)
    at(0)
    told = run_job(lakehouse, job, options=FILE_BY_FILE, runners=without_spark)
    assert len(told.batch_seconds) > 1
    assert told.counts.rows["station_sessions"] == 0
    at(30)
    stations = silent.runs()[0]["station_id"].n_unique()
    assert run_job(lakehouse, job, runners=without_spark).counts.rows["station_sessions"] >= stations


def test_processing_time_never_goes_back_though_the_machine_s_clock_does_and_a_crash_took_its_record(
    without_spark, tmp_path, at, cut_power
):
    silent = EVERY[0]
    job, lakehouse = silent.job(), Lakehouse(tmp_path)
    put(lakehouse, job.only_input.stream.name, silent.runs()[0])
    at(40)
    assert cut_power("commit: after", lambda: run_job(lakehouse, job, runners=without_spark))
    at(0)
    put(lakehouse, job.only_input.stream.name, silent.runs()[1])
    run_job(lakehouse, job, runners=without_spark)
    live = Lake(lakehouse).live(job.name)
    done = live.journal.last_done()
    assert done is not None
    assert done.processing_time == NOON + 40 * SECOND
    state = pl.concat(frames_of_state(live, done.batch))
    assert state["processing_deadline"].unique().to_list() == [NOON + 70 * SECOND]
