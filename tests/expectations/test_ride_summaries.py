"""The suite of ride_summaries: each fault beside good rows fails the check that is about it alone."""

from datetime import UTC, datetime, timedelta
from typing import Any

from expectations.ride_summaries import EXPECTATIONS
from spark_jobs.jobs.ride_summaries import RIDE_SUMMARY
from spark_jobs.streams import RIDE_STATUSES
from tests.expectations.failed_checks import rows_found

START = datetime(2026, 1, 1, 12, tzinfo=UTC)


def ride(number: int, **changes: Any) -> dict[str, Any]:
    good = {
        "ride_id": f"ride-{number}",
        "start_time": START,
        "end_time": START + timedelta(minutes=10),
        "start_status": "pickup",
        "end_status": "dropoff",
        "ride_duration_in_secs": 600.0,
        "reason": "DROPOFF_SEEN",
        "n_points": 60,
        "distance_in_metres": 4_000.0,
        "fare": 12.5,
        "start_latitude": 40.7,
        "start_longitude": -74.0,
    }
    return {**good, **changes}


def found(rides: list[dict[str, Any]]) -> dict[str, Any]:
    return rows_found(rides, RIDE_SUMMARY, EXPECTATIONS)


def test_each_fault_is_found_by_the_check_that_is_about_it():
    faults = [
        {"ride_id": None},
        {"ride_id": "ride-0"},
        {"end_time": START - timedelta(seconds=1)},
        {"ride_duration_in_secs": -1.0, "distance_in_metres": 0.0},
        {"n_points": 0},
        {"distance_in_metres": -1.0},
        {"start_status": "teleporting"},
        {"reason": "TIRED"},
        {"reason": "GARBAGE_COLLECTION"},
        {"distance_in_metres": 900_000.0},
        {"fare": -3.0},
        {"end_status": "teleporting", "reason": "GARBAGE_COLLECTION"},
    ]
    faulty = [ride(100 + number, **fault) for number, fault in enumerate(faults)]
    gone_quiet = ride(99, end_status="enroute", reason="GARBAGE_COLLECTION", fare=None)
    assert found([*(ride(n) for n in range(30)), gone_quiet, *faulty]) == {
        "ride_id_is_there": 1,
        "one_summary_a_ride": 2,
        "ends_after_it_starts": 1,
        "duration_is_not_negative": 1,
        "has_points": 1,
        "distance_is_not_negative": 1,
        "start_status_is_known": 1,
        "end_status_is_known": 1,
        "reason_is_known": 1,
        "dropoff_seen_means_dropoff": 2,  # TIRED means none either
        "speed_is_plausible": 1,
        "fare_is_not_negative": 1,
    }


def test_a_table_whose_rides_start_without_pickups_is_told():
    rides = [ride(n, start_status="pickup" if n % 2 else "enroute") for n in range(20)]
    assert found(rides) == {"most_rides_start_with_a_pickup": 10}


def test_the_suite_knows_the_statuses_of_the_stream():
    assert EXPECTATIONS["end_status_is_known"]["kwargs"]["value_set"] == list(RIDE_STATUSES)
