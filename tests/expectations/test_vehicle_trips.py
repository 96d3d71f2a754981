"""The suites of vehicle trips: each fault beside good rows fails the check that is about it alone."""

from datetime import UTC, datetime, timedelta
from typing import Any

from expectations import vehicle_stops, vehicle_trips
from spark_jobs.jobs.vehicle_trips import VEHICLE_STOP, VEHICLE_TRIP
from tests.expectations.failed_checks import rows_found

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


def found(table, faults):
    expectations, columns = SUITES[table]
    return rows_found([*GOOD[table], *faults], columns, expectations)


def test_each_faulty_trip_is_found_by_the_check_that_is_about_it():
    faults = [
        {"trip_id": "bus-7@3"},
        {"vehicle_id": None},
        {"end_time": NOON},
        {"n_points": 0},
        {"distance_in_metres": -1.0},
        {"reason": "TIRED"},
        {"idle_seconds": 0.0},
        {"start_time": NOON + 3365 * MINUTE},
        {"average_speed": 900.0},
        {"fuel_used": -0.1},
        {"litres_per_100_km": 900.0},
        {"harsh_braking": 62},
        {"highest_engine_temperature": 999.0},
    ]
    assert found("vehicle_trips", [trip(50 + number, **fault) for number, fault in enumerate(faults)]) == {
        "trip_id_is_unique": 2,
        "vehicle_id_is_there": 1,
        "ends_after_it_starts": 1,
        "has_points": 1,
        "distance_is_not_negative": 1,
        "reason_is_known": 1,
        "times_add_up": 3,  # those of wrong times too
        "trips_do_not_overlap": 1,
        "speed_is_plausible": 1,
        "fuel_is_not_negative": 1,
        "fuel_efficiency_is_plausible": 1,
        "hard_points_are_points": 1,
        "engine_temperature_is_possible": 1,
    }


def test_vehicles_that_fall_silent_too_often_are_told():
    rows = [trip(number, reason="FELL_SILENT") for number in range(30, 35)]
    assert found("vehicle_trips", rows) == {"most_trips_end_with_a_stop": 6}


def test_each_faulty_stop_is_found_by_the_check_that_is_about_it():
    faults = [
        {"vehicle_id": None},
        {"end_time": NOON},
        {"n_points": 0},
        {"reason": "TIRED"},
        {"start_time": NOON + 3235 * MINUTE},
        {"latitude": 91.0},
        {"longitude": -181.0},
        {"vehicle_id": "bus-8", "end_time": NOON + timedelta(days=10)},
    ]
    assert found("vehicle_stops", [stop(50 + number, **fault) for number, fault in enumerate(faults)]) == {
        "vehicle_id_is_there": 1,
        "ends_after_it_starts": 1,
        "has_points": 1,
        "reason_is_known": 1,
        "stops_do_not_overlap": 1,
        "latitude_is_on_earth": 1,
        "longitude_is_on_earth": 1,
        "no_stop_takes_a_week": 1,
    }
