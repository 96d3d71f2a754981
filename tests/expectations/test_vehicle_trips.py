"""The suites of vehicle trips: good rows pass all of each, and each fault fails the check that is about it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from expectations import vehicle_stops, vehicle_trips
from spark_jobs.jobs.vehicle_trips.job import VEHICLE_STOP, VEHICLE_TRIP
from tests.expectations.failed_checks import failed_checks

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SUITES = {
    "vehicle_trips": (vehicle_trips.EXPECTATIONS, VEHICLE_TRIP),
    "vehicle_stops": (vehicle_stops.EXPECTATIONS, VEHICLE_STOP),
}


def trip(number: int, **changes: Any) -> dict[str, Any]:
    good = {
        "trip_id": f"bus-7@{number}",
        "vehicle_id": "bus-7",
        "start_time": NOON + 60 * number * MINUTE,
        "end_time": NOON + (60 * number + 10) * MINUTE,
        "start_latitude": 48.1,
        "start_longitude": 11.6,
        "end_latitude": 48.2,
        "end_longitude": 11.5,
        "distance_in_metres": 8_000.0,
        "moving_seconds": 540.0,
        "idle_seconds": 60.0,
        "average_speed": 48.0,
        "top_speed": 70.0,
        "fuel_used": 0.6,
        "litres_per_100_km": 7.5,
        "harsh_braking": 1,
        "harsh_acceleration": 0,
        "highest_engine_temperature": 92.5,
        "n_points": 60,
        "reason": "STOPPED",
    }
    return {**good, **changes}


def stop(number: int, **changes: Any) -> dict[str, Any]:
    good = {
        "vehicle_id": "bus-7",
        "start_time": NOON + (60 * number + 10) * MINUTE,
        "end_time": NOON + 60 * (number + 1) * MINUTE,
        "latitude": 48.2,
        "longitude": 11.5,
        "n_points": 5,
        "reason": "MOVED_ON",
    }
    return {**good, **changes}


LONE_POINT = {"end_time": NOON + 6000 * MINUTE, "moving_seconds": 0.0, "idle_seconds": 0.0, "average_speed": None}
UNTOLD = dict.fromkeys(
    ("fuel_used", "litres_per_100_km", "harsh_braking", "harsh_acceleration", "highest_engine_temperature")
)
GOOD = {
    "vehicle_trips": [
        *(trip(number) for number in range(20)),
        trip(100, **LONE_POINT, **UNTOLD, reason="FELL_SILENT"),
    ],
    "vehicle_stops": [*(stop(number) for number in range(20)), stop(100, reason="FELL_SILENT")],
}


def failed(spark, table, rows):
    expectations, columns = SUITES[table]
    return failed_checks(spark, rows, columns, expectations)


@pytest.mark.parametrize("table", SUITES)
def test_good_rows_pass_the_whole_suite(spark, table):
    assert failed(spark, table, GOOD[table]) == set()


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ({"trip_id": "bus-7@3"}, "trip_id_is_unique"),
        ({"vehicle_id": None}, "vehicle_id_is_there"),
        ({"end_time": NOON}, "ends_after_it_starts"),
        ({"n_points": 0}, "has_points"),
        ({"distance_in_metres": -1.0}, "distance_is_not_negative"),
        ({"reason": "TIRED"}, "reason_is_known"),
        ({"idle_seconds": 0.0}, "times_add_up"),
        ({"start_time": NOON + 1145 * MINUTE}, "trips_do_not_overlap"),
        ({"average_speed": 900.0}, "speed_is_plausible"),
        ({"fuel_used": -0.1}, "fuel_is_not_negative"),
        ({"litres_per_100_km": 900.0}, "fuel_efficiency_is_plausible"),
        ({"harsh_braking": 62}, "hard_points_are_points"),
        ({"highest_engine_temperature": 999.0}, "engine_temperature_is_possible"),
    ],
)
def test_a_faulty_trip_fails_the_check_that_is_about_it(spark, fault, check):
    assert check in failed(spark, "vehicle_trips", [*GOOD["vehicle_trips"], trip(50, **fault)])


def test_vehicles_that_fall_silent_too_often_are_told(spark):
    rows = [trip(number, reason="FELL_SILENT") for number in range(30, 35)]
    assert failed(spark, "vehicle_trips", [*GOOD["vehicle_trips"], *rows]) == {"most_trips_end_with_a_stop"}


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ({"vehicle_id": None}, "vehicle_id_is_there"),
        ({"end_time": NOON}, "ends_after_it_starts"),
        ({"n_points": 0}, "has_points"),
        ({"reason": "TIRED"}, "reason_is_known"),
        ({"start_time": NOON + 1155 * MINUTE}, "stops_do_not_overlap"),
        ({"latitude": 91.0}, "latitude_is_on_earth"),
        ({"longitude": -181.0}, "longitude_is_on_earth"),
        ({"end_time": NOON + timedelta(days=10)}, "no_stop_takes_a_week"),
    ],
)
def test_a_faulty_stop_fails_the_check_that_is_about_it(spark, fault, check):
    assert check in failed(spark, "vehicle_stops", [*GOOD["vehicle_stops"], stop(50, **fault)])


def test_severities_are_mixed():
    assert {one["severity"] for one in SUITES["vehicle_trips"][0].values()} == {"critical", "warning", "info"}
