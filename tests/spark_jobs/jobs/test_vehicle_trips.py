"""Vehicle trips, without Spark, against a state machine in plain Python."""

import math
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from keyfold.errors import KeyfoldError
from keyfold.keyed.calling.harness import TestHarness
from keyfold.keyed.job.building import build_job
from keyfold.keyed.rows.codec import polars_schema
from keyfold.testing import play
from spark_jobs.jobs.vehicle_trips import VEHICLE_TRIPS
from spark_jobs.streams import TELEMETRY

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
LONG_PAST_ALL = NOON + timedelta(days=30)


def trips_job(**parameters):
    return build_job(VEHICLE_TRIPS, parameters)


def point(
    minutes,
    speed,
    fuel: float | None = None,
    latitude=0.0,
    longitude=10.0,
    acceleration: float | None = None,
    heat: float | None = None,
    vehicle="bus-7",
):
    return {
        "vehicle_id": vehicle,
        "time": NOON + minutes * MINUTE,
        "latitude": latitude,
        "longitude": longitude,
        "speed": float(speed),
        "fuel_level": fuel,
        "acceleration": acceleration,
        "bearing": None,
        "engine_temperature": heat,
    }


def frame(points):
    return points if isinstance(points, pl.DataFrame) else pl.DataFrame(points, schema=polars_schema(TELEMETRY.schema))


def play_points(job, batches, end: datetime | None = LONG_PAST_ALL, cuts=(), times=None):
    return play(job, [frame(batch) for batch in batches], end, cuts=cuts, times=times)


def trips(harness):
    return harness.written["vehicle_trips"].sort("vehicle_id", "start_time").to_dicts()


A_DRIVE = [
    point(0, 0, 40.0),
    point(1, 30, 39.5),
    point(2, 60, 39.0, latitude=0.01),
    point(3, 0, 38.75, latitude=0.02),
    point(4, 0, 50.0, latitude=0.02),
    point(20, 40, 49.0, latitude=0.02),
]


def test_a_trip_runs_from_the_first_moving_point_to_the_first_at_which_the_vehicle_stays():
    (trip, second) = trips(play_points(trips_job(), [A_DRIVE]))
    assert trip.pop("distance_in_metres") == pytest.approx(2223.9, abs=0.1)
    assert trip.pop("average_speed") == pytest.approx(66.72, abs=0.01)
    assert trip.pop("litres_per_100_km") == pytest.approx(0.75 / 2.2239 * 100, abs=0.01)
    assert trip == {
        "trip_id": "bus-7@2026-01-01T12:01:00.000000Z",
        "vehicle_id": "bus-7",
        "start_time": NOON + MINUTE,
        "end_time": NOON + 3 * MINUTE,
        "start_latitude": 0.0,
        "start_longitude": 10.0,
        "end_latitude": 0.02,
        "end_longitude": 10.0,
        "moving_seconds": 120.0,
        "idle_seconds": 0.0,
        "top_speed": 60.0,
        "fuel_used": 0.75,
        "harsh_braking": None,
        "harsh_acceleration": None,
        "highest_engine_temperature": None,
        "n_points": 2,
        "reason": "STOPPED",
    }
    assert (second["n_points"], second["reason"], second["average_speed"]) == (1, "FELL_SILENT", None)


def test_fuel_that_is_filled_in_is_no_use_and_readings_that_miss_are_passed_over():
    fuels = [40.0, None, 39.4, 60.0, None, 59.9]
    drive = [point(minute, 50, fuel) for minute, fuel in enumerate(fuels)]
    (trip,) = trips(play_points(trips_job(), [drive]))
    assert trip["fuel_used"] == 0.7
    (unread,) = trips(play_points(trips_job(), [[point(0, 50), point(1, 50, math.nan)]]))
    assert unread["fuel_used"] is None


def test_hard_points_are_counted_from_the_first_that_moves_to_the_arrival_where_they_say_so():
    told = [(-9.0, 130.0), (-3.5, 90.0), (None, None), (3.0, None), (2.9, 101.5), (-4.0, 100.0), (-9.0, 140.0)]
    speeds = [0, 50, 50, 0, 50, 0, 0]
    drive = [point(minute, speeds[minute], acceleration=a, heat=h) for minute, (a, h) in enumerate(told)]
    (trip,) = trips(play_points(trips_job(), [drive]))
    assert trip["start_time"] == NOON + MINUTE
    assert (trip["harsh_braking"], trip["harsh_acceleration"], trip["highest_engine_temperature"]) == (2, 1, 101.5)
    (harder,) = trips(play_points(trips_job(harsh_braking=3.6, harsh_acceleration=2.9), [[one] for one in drive]))
    assert (harder["harsh_braking"], harder["harsh_acceleration"]) == (1, 2)


def test_state_keeps_sums_and_not_the_points_that_have_passed():
    hours = [[point(minute, minute % 7 * 10) for minute in range(start, start + 60)] for start in range(0, 600, 60)]
    harness = play_points(trips_job(), hours, NOON)
    waits = pl.col("time") > NOON + 589 * MINUTE
    assert harness.state.filter(waits).height == 10
    # One row of sums, and what may be a pause: it has stood for less than five minutes.
    assert harness.state.filter(~waits)["start_time"].count() == 1
    assert harness.state.filter(~waits).height <= 1 + 5


def test_a_trip_that_is_open_when_a_move_raises_the_speed_that_counts_goes_on():
    before = play_points(trips_job(watermark_delay="0s"), [[point(0, 10), point(1, 10)]], None)
    moved = TestHarness(trips_job(watermark_delay="0s", moving_speed=30))
    moved.state, moved.watermark = before.state, before.watermark
    moved.batch(frame([point(2, 50)]))
    moved.batch(advance_to=LONG_PAST_ALL)
    assert [trip["n_points"] for trip in trips(moved)] == [3]


def test_a_vehicle_that_jumps_to_the_other_side_of_the_earth_has_a_distance():
    jump = [point(0, 50, latitude=90.0, longitude=0.0), point(1, 50, latitude=-90.0, longitude=180.0)]
    (trip,) = trips(play_points(trips_job(), [jump]))
    assert trip["distance_in_metres"] == pytest.approx(math.pi * 6_371_008.8)


@pytest.mark.parametrize("given", [{"moving_speed": -1}, {"stop_after": "0s"}, {"silence": "x"}, {"stopafter": "1m"}])
def test_parameters_that_cannot_be_are_refused(given):
    with pytest.raises(KeyfoldError, match=next(iter(given))):
        trips_job(**given)
