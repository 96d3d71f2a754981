"""The suite of fleet days: each fault beside good rows fails the check that is about it alone."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

from expectations.fleet_days import EXPECTATIONS
from spark_jobs.jobs.fleet_days import FLEET_DAY
from tests.expectations.failed_checks import rows_found

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


def day(number: int, **changes: Any) -> dict[str, Any]:
    good = {
        "vehicle_id": "bus-7",
        "day": date(2026, 1, 1) + timedelta(days=number),
        "window_start": NEW_YEAR + timedelta(days=number),
        "kilometres": 80.0,
        "trips": 9,
        "moving_seconds": 7_200.0,
        "idle_seconds": 600.0,
        "fuel_used": 7.5,
        "is_open": number > 18,
    }
    return {**good, **changes}


UNKNOWN = {"kilometres": 0.0, "moving_seconds": 0.0, "fuel_used": None}
GOOD = [*(day(number) for number in range(20)), day(20, **UNKNOWN)]


def test_each_fault_is_found_by_the_check_that_is_about_it():
    faults = [
        {"vehicle_id": None},
        {"day": date(2026, 1, 4)},
        {"kilometres": -1.0},
        {"fuel_used": -0.5},
        {"idle_seconds": -1.0},
        {"trips": 0},
        {"kilometres": 900.0},
    ]
    faulty = [day(50 + number, **fault) for number, fault in enumerate(faults)]
    assert rows_found([*GOOD, *faulty], FLEET_DAY, EXPECTATIONS) == {
        "vehicle_id_is_there": 1,
        "one_row_a_vehicle_and_day": 2,
        "kilometres_are_not_negative": 1,
        "fuel_is_not_negative": 1,
        "times_are_not_negative": 1,
        "there_is_a_trip": 1,
        "speed_is_plausible": 1,
    }


def test_distances_that_are_unusual_in_the_mean_are_told():
    faulty = day(50, kilometres=90_000.0)
    assert rows_found([*GOOD, faulty], FLEET_DAY, EXPECTATIONS).keys() == {
        "speed_is_plausible",
        "mean_distance_is_usual",
    }
