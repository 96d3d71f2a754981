"""Vehicle trips, without Spark: state, and moves; their rows are those of `test_any_history.py`."""

import math
from datetime import datetime

import polars as pl
import pytest

from keyfold.keyed.calling.harness import TestHarness
from keyfold.keyed.job.building import build_job
from keyfold.testing import play
from spark_jobs.jobs.vehicle_trips import VEHICLE_TRIPS
from tests.spark_jobs.jobs.events import LONG_PAST_ALL, MINUTE, NOON, telemetry_frame, telemetry_point


def trips_job(**parameters):
    return build_job(VEHICLE_TRIPS, parameters)


def play_points(job, batches, end: datetime | None = LONG_PAST_ALL, cuts=(), times=None):
    return play(job, [telemetry_frame(batch) for batch in batches], end, cuts=cuts, times=times)


def trips(harness):
    return harness.written["vehicle_trips"].sort("vehicle_id", "start_time").to_dicts()


def test_state_keeps_sums_and_not_the_points_that_have_passed():
    hours = [
        [telemetry_point(minute, minute % 7 * 10) for minute in range(start, start + 60)] for start in range(0, 600, 60)
    ]
    harness = play_points(trips_job(), hours, NOON)
    waits = pl.col("time") > NOON + 589 * MINUTE
    assert harness.state.filter(waits).height == 10
    # One row of sums, and what may be a pause: it has stood for less than five minutes.
    assert harness.state.filter(~waits)["start_time"].count() == 1
    assert harness.state.filter(~waits).height <= 1 + 5


def test_a_trip_that_is_open_when_a_move_raises_the_speed_that_counts_goes_on():
    before = play_points(trips_job(delay="0s"), [[telemetry_point(0, 10), telemetry_point(1, 10)]], None)
    moved = TestHarness(trips_job(delay="0s", moving_speed=30))
    moved.state, moved.watermark = before.state, before.watermark
    moved.batch(telemetry_frame([telemetry_point(2, 50)]))
    moved.batch(advance_to=LONG_PAST_ALL)
    assert [trip["n_points"] for trip in trips(moved)] == [3]


def test_a_vehicle_that_jumps_to_the_other_side_of_the_earth_has_a_distance():
    jump = [
        telemetry_point(0, 50, latitude=90.0, longitude=0.0),
        telemetry_point(1, 50, latitude=-90.0, longitude=180.0),
    ]
    (trip,) = trips(play_points(trips_job(), [jump]))
    assert trip["distance_in_metres"] == pytest.approx(math.pi * 6_371_008.8)
