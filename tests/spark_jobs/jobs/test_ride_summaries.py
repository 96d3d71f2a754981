"""Ride summaries, without Spark: state, and moves; their rows are those of `test_any_history.py`."""

from datetime import datetime, timedelta

import polars as pl

from keyfold.keyed.calling.harness import TestHarness
from keyfold.keyed.job.building import build_job
from keyfold.keyed.rows.codec import polars_schema
from keyfold.testing import play
from spark_jobs.jobs.registry import JOBS
from spark_jobs.jobs.ride_summaries import RIDE_SUMMARIES
from tests.shop import MINUTE, NOON
from tests.spark_jobs.jobs.events import ride_point

TIMEOUT = timedelta(minutes=30)
CLOSED_FOR = timedelta(hours=1)
LONG_PAST_ALL = NOON + timedelta(days=30)


def ride_job(**parameters):
    return build_job(JOBS["ride_summaries"], {"closed_for": CLOSED_FOR, **parameters})


def frame(points):
    return pl.DataFrame(points, schema=polars_schema(RIDE_SUMMARIES.columns), orient="row")


def play_rides(job, batches, end: datetime | None = LONG_PAST_ALL, cuts=(), times=None):
    return play(job, [frame(batch) for batch in batches], end, cuts=cuts, times=times)


A_RIDE = [ride_point("a", 0, 0, "pickup"), ride_point("a", 1, 5), ride_point("a", 2, 10, "dropoff")]


def test_a_ride_that_was_open_when_its_job_moved_to_processing_time_counts_as_heard_of_when_it_was_due():
    before = play_rides(ride_job(), [A_RIDE[:2]], None)
    moved = TestHarness(ride_job(timeout_in="processing_time"))
    moved.state = before.state.with_columns(processing_deadline=pl.lit(None, pl.Datetime("us", "UTC")))
    # Its old deadline calls the step, which now goes by the other time.
    moved.batch(processing_time=NOON, advance_to=NOON + timedelta(minutes=5) + TIMEOUT)
    assert moved.written["ride_summaries"].is_empty()
    assert moved.state.select("deadline", "processing_deadline").rows()[0] == (None, NOON + TIMEOUT)
    moved.batch(processing_time=NOON + TIMEOUT)
    assert moved.written["ride_summaries"]["n_points"].to_list() == [2]


def test_points_that_only_wait_are_added_to_their_ride_until_those_that_have_passed_are_summed_up():
    harness = TestHarness(ride_job(delay=10 * MINUTE))
    harness.batch(frame([ride_point("a", minute, minute) for minute in range(20)]))
    rows = [harness.state.height]
    for minute in range(20, 62):
        before = harness.state
        harness.batch(frame([ride_point("a", minute, minute)]))
        assert harness.state.height < before.height or harness.state[:-1].equals(before)
        rows.append(harness.state.height)
    # Eleven rows, one of them what has passed; then one more each minute, until half an hour has passed since the last of them.
    assert rows == [*range(11, 51), *range(11, 14)]


def test_a_ride_that_gets_a_dropoff_or_falls_silent_does_not_wait():
    for last in (ride_point("a", 99, 21, "dropoff"), ride_point("a", 99, 62)):
        harness = play_rides(ride_job(), [[ride_point("a", minute, minute) for minute in range(20)], [last]], None)
        assert harness.written["ride_summaries"].height == 1
