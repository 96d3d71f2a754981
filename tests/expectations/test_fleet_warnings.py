"""The suite of fleet warnings: each fault beside good rows fails the check that is about it alone."""

from datetime import UTC, datetime, timedelta
from typing import Any

from expectations.fleet_warnings import EXPECTATIONS
from spark_jobs.jobs.fleet_warnings.job import FLEET_WARNING
from tests.expectations.failed_checks import rows_found

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def warning(minute: int, **changes: Any) -> dict[str, Any]:
    good = {
        "vehicle_id": "bus-7",
        "time": NOON + minute * MINUTE,
        "warning": "LOW_FUEL",
        "change": "BEGAN",
        "geofence": None,
        "began_at": NOON + minute * MINUTE,
        "latitude": 52.5,
        "longitude": 13.4,
        "fuel_level": 9.5,
        "engine_temperature": None,
    }
    return {**good, **changes}


def ended(minute: int, began: int, **changes: Any) -> dict[str, Any]:
    return warning(minute, change="ENDED", began_at=NOON + began * MINUTE, **changes)


HOT = {"warning": "ENGINE_TOO_HOT", "engine_temperature": 112.0, "fuel_level": None}
YARD = {"warning": "IN_GEOFENCE", "geofence": "yard", "fuel_level": None}
GOOD = [
    *(one for start in range(0, 100, 10) for one in (warning(start), ended(start + 5, start))),
    warning(1, **HOT),
    ended(9, 1, **HOT),
    warning(2, **YARD),
    warning(3, **{**YARD, "geofence": "docks"}),
    ended(20_000, 2, **YARD),
]


def test_each_fault_is_found_by_the_check_that_is_about_it():
    faults = [
        warning(500, vehicle_id=None),
        warning(500, warning="TIRED"),
        warning(500, change="WENT_ON"),
        ended(97, 80),
        warning(500, vehicle_id="bus-2", began_at=NOON),
        ended(500, 501, vehicle_id="bus-3"),
        warning(500, **{**YARD, "geofence": None}),
        warning(500, vehicle_id="bus-4", fuel_level=None),
        warning(500, **{**HOT, "engine_temperature": 999.0}),
        ended(50_000, 1, vehicle_id="bus-8"),
    ]
    assert rows_found([*GOOD, *faults], FLEET_WARNING, EXPECTATIONS) == {
        "vehicle_id_is_there": 1,
        "warning_is_known": 1,
        "change_is_known": 1,
        "begins_and_ends_by_turns": 1,
        "ends_after_it_began": 2,
        "geofences_are_named": 1,
        "the_point_tells_why": 1,
        "engine_temperature_is_possible": 1,
        "no_warning_holds_for_a_week": 1,
    }
