"""The step of ride summaries, without Spark, against a state machine in plain Python."""

import gzip
import json
from datetime import UTC, datetime, timedelta
from itertools import chain

import polars as pl
import pytest

from keyfold.keyed.calling.harness import TestHarness
from keyfold.keyed.job.building import build_job
from keyfold.keyed.rows.codec import polars_schema
from keyfold.testing import play
from spark_jobs.jobs.registry import JOBS
from spark_jobs.jobs.ride_summaries import RIDE_SUMMARIES
from tests.on_a_grid import assert_nothing_is_due
from tests.spark_jobs.jobs import ride_oracle

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TIMEOUT = timedelta(minutes=30)
CLOSED_FOR = timedelta(hours=1)
LONG_PAST_ALL = NOON + timedelta(days=30)
MINUTE = timedelta(minutes=1)


def ride_job(**parameters):
    return build_job(JOBS["ride_summaries"], {"closed_for": CLOSED_FOR, **parameters})


def point(ride, index, minutes, status="enroute", latitude=40.7, longitude=-74.0):
    return {
        "ride_id": ride,
        "point_idx": index,
        "latitude": latitude + index / 1000,
        "longitude": longitude,
        "timestamp": NOON + timedelta(minutes=minutes),
        "meter_reading": 2.5 + index,
        "ride_status": status,
    }


def frame(points):
    return pl.DataFrame(points, schema=polars_schema(RIDE_SUMMARIES.columns), orient="row")


def play_rides(job, batches, end: datetime | None = LONG_PAST_ALL, cuts=(), times=None):
    return play(job, [frame(batch) for batch in batches], end, cuts=cuts, times=times)


def assert_agree(harness, answer):
    rows = harness.written["ride_summaries"].to_dicts()
    assert len(rows) == len(answer.summaries)
    for row in rows:
        expected = answer.summaries[row["ride_id"], row["start_time"]]
        assert row.pop("distance_in_metres") == pytest.approx(expected.pop("distance_in_metres"), rel=1e-7, abs=1e-3)
        assert row == expected
    assert harness.written["late.ride_summaries"].height == answer.late_points
    assert_nothing_is_due(harness)


A_RIDE = [point("a", 0, 0, "pickup"), point("a", 1, 5), point("a", 2, 10, "dropoff")]


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


def test_real_rides_agree_with_the_state_machine(real_data):
    lines = chain(*(gzip.decompress(file.read_bytes()).splitlines() for file in (real_data / "rides").glob("*.gz")))
    points = [{name: json.loads(line)[name] for name in RIDE_SUMMARIES.columns.names} for line in lines]
    for each in points:
        each["timestamp"] = datetime.fromisoformat(each["timestamp"]).astimezone(UTC)
    points.sort(key=lambda point: point["timestamp"])
    batches = [points[start : start + 4000] for start in range(0, len(points), 4000)]
    end = datetime(2016, 6, 22, tzinfo=UTC)
    harness = play_rides(ride_job(close="complete"), batches, end=end)
    answer = ride_oracle.complete(points, end, TIMEOUT, CLOSED_FOR)
    assert len(answer.summaries) == 498
    assert_agree(harness, answer)


def test_points_that_only_wait_are_added_to_their_ride_until_those_that_have_passed_are_summed_up():
    harness = TestHarness(ride_job(watermark_delay=10 * MINUTE))
    harness.batch(frame([point("a", minute, minute) for minute in range(20)]))
    rows = [harness.state.height]
    for minute in range(20, 62):
        before = harness.state
        harness.batch(frame([point("a", minute, minute)]))
        assert harness.state.height < before.height or harness.state[:-1].equals(before)
        rows.append(harness.state.height)
    # Eleven rows, one of them what has passed; then one more each minute, until half an hour has passed since the last of them.
    assert rows == [*range(11, 51), *range(11, 14)]


def test_a_ride_that_gets_a_dropoff_or_falls_silent_does_not_wait():
    for last in (point("a", 99, 21, "dropoff"), point("a", 99, 62)):
        harness = play_rides(ride_job(), [[point("a", minute, minute) for minute in range(20)], [last]], None)
        assert harness.written["ride_summaries"].height == 1
