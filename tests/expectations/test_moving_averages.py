"""The suites of moving averages: each fault beside good rows fails the check that is about it alone."""

from datetime import UTC, datetime, timedelta
from typing import Any

from expectations import latest_moving_averages, moving_averages, station_sessions
from keyfold.keyed.job.parameters import build_job
from spark_jobs.jobs.moving_averages import MOVING_AVERAGES, STATION_SESSION
from tests.expectations.failed_checks import rows_found

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
AVERAGES = build_job(MOVING_AVERAGES).output
SUITES = {
    "moving_averages": (moving_averages.EXPECTATIONS, AVERAGES),
    "latest_moving_averages": (latest_moving_averages.EXPECTATIONS, AVERAGES),
    "station_sessions": (station_sessions.EXPECTATIONS, STATION_SESSION),
}


def average(number: int, station: str = "JFK", **changes: Any) -> dict[str, Any]:
    good = {
        "station_id": station,
        "start_time": NOON + number * HOUR,
        "end_time": NOON + (number + 9) * HOUR,
        "pressure_avg": 1013.2,
        "temp_avg": 51.0,
        "n_readings": 10,
        "reason": "WINDOW_FULL",
    }
    return {**good, **changes}


def session(number: int, **changes: Any) -> dict[str, Any]:
    good = {
        "station_id": "JFK",
        "start_time": NOON + 100 * number * HOUR,
        "end_time": NOON + (100 * number + 20) * HOUR,
        "n_readings": 21,
        "reason": "TIMEOUT",
    }
    return {**good, **changes}


GOOD = {
    "moving_averages": [
        *(average(number) for number in range(20)),
        average(40, station="EWR", n_readings=3, reason="TIMEOUT", pressure_avg=None),
    ],
    "latest_moving_averages": [average(number % 3, station=f"station-{number}") for number in range(20)],
    "station_sessions": [
        *(session(number) for number in range(10)),
        session(20, end_time=NOON + 2000 * HOUR, n_readings=1),
    ],
}


def found(table, faults):
    expectations, columns = SUITES[table]
    return rows_found([*GOOD[table], *faults], columns, expectations)


def test_each_faulty_average_is_found_by_the_check_that_is_about_it():
    faults = [
        average(50, station_id=None),
        average(51, end_time=NOON),
        average(52, end_time=NOON + 10 * HOUR, start_time=NOON),
        average(53, n_readings=0, reason="TIMEOUT"),
        average(54, reason="BORED"),
        average(55, n_readings=9),
        average(56, pressure_avg=29.9),
        average(57, temp_avg=284.0),
    ]
    assert found("moving_averages", [*(average(number) for number in range(100, 120)), *faults]) == {
        "station_id_is_there": 1,
        "ends_after_it_starts": 1,
        "one_row_a_reading": 2,
        "has_readings": 1,
        "reason_is_known": 1,
        "full_windows_are_of_one_size": 1,
        "pressure_is_plausible": 1,
        "temp_is_plausible": 1,
    }


def test_stations_that_come_and_go_are_told():
    rows = [average(number, n_readings=4, reason="TIMEOUT") for number in range(100, 105)]
    assert found("moving_averages", rows) == {"most_windows_are_full": 6}


def test_each_faulty_latest_row_is_found_by_the_check_that_is_about_it():
    faults = [
        average(0, station_id=None),
        average(0, station="station-1"),
        average(0, station="LGA", end_time=NOON - HOUR),
        average(0, station="BOS", reason="BORED"),
        average(0, station="ORD", pressure_avg=29.9),
        average(0, station="SFO", temp_avg=284.0),
        average(0, station="LAX", start_time=NOON - 40 * HOUR, end_time=NOON - 30 * HOUR),
    ]
    assert found("latest_moving_averages", faults) == {
        "station_id_is_there": 1,
        "one_row_a_station": 2,
        "ends_after_it_starts": 1,
        "reason_is_known": 1,
        "pressure_is_plausible": 1,
        "temp_is_plausible": 1,
        "no_station_lags_behind": 1,
    }


def test_each_faulty_session_is_found_by_the_check_that_is_about_it():
    faults = [
        session(30, station_id=None),
        session(31, end_time=NOON),
        session(32, n_readings=0),
        session(33, reason="BORED"),
        session(34, start_time=NOON + 3310 * HOUR),
        session(35, n_readings=1),
    ]
    assert found("station_sessions", faults) == {
        "station_id_is_there": 1,
        "ends_after_it_starts": 1,
        "has_readings": 1,
        "reason_is_known": 1,
        "sessions_do_not_overlap": 1,
        "a_lone_reading_takes_no_time": 1,
    }


def test_sessions_too_short_for_a_window_are_told():
    rows = [session(number, n_readings=4) for number in range(30, 40)]
    assert found("station_sessions", rows) == {"most_sessions_fill_a_window": 11}
