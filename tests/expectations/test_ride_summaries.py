"""The suite of ride_summaries: good rows pass all of it, and each fault fails the check that is about it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from expectations.ride_summaries import EXPECTATIONS
from spark_jobs.jobs.ride_summaries.job import RIDE_SUMMARY
from spark_jobs.streams import RIDE_STATUSES
from tests.expectations.failed_checks import failed_checks

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
    }
    return {**good, **changes}


def failed(spark: SparkSession, rides: list[dict[str, Any]]) -> set[str]:
    return failed_checks(spark, rides, RIDE_SUMMARY, EXPECTATIONS)


def test_good_rides_pass_the_whole_suite(spark):
    gone_quiet = ride(1, end_status="enroute", reason="GARBAGE_COLLECTION", fare=None)
    assert failed(spark, [ride(0), gone_quiet, *(ride(n) for n in range(2, 30))]) == set()


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ({"ride_id": None}, "ride_id_is_there"),
        ({"ride_id": "ride-0"}, "one_summary_a_ride"),
        ({"end_time": START - timedelta(seconds=1)}, "ends_after_it_starts"),
        ({"ride_duration_in_secs": -1.0}, "duration_is_not_negative"),
        ({"n_points": 0}, "has_points"),
        ({"distance_in_metres": -1.0}, "distance_is_not_negative"),
        ({"start_status": "teleporting"}, "start_status_is_known"),
        ({"reason": "TIRED"}, "reason_is_known"),
        ({"reason": "GARBAGE_COLLECTION"}, "dropoff_seen_means_dropoff"),
        ({"distance_in_metres": 900_000.0}, "speed_is_plausible"),
        ({"fare": -3.0}, "fare_is_not_negative"),
    ],
)
def test_a_fault_fails_the_check_that_is_about_it(spark, fault, check):
    assert check in failed(spark, [*(ride(n) for n in range(30)), ride(99, **fault)])


def test_a_table_whose_rides_start_without_pickups_is_told(spark):
    rides = [ride(n, start_status="pickup" if n % 2 else "enroute") for n in range(20)]
    assert failed(spark, rides) == {"most_rides_start_with_a_pickup"}


def test_the_suite_knows_the_statuses_of_the_stream():
    assert EXPECTATIONS["end_status_is_known"]["kwargs"]["value_set"] == list(RIDE_STATUSES)


def test_severities_are_mixed():
    assert {one["severity"] for one in EXPECTATIONS.values()} == {"critical", "warning", "info"}
