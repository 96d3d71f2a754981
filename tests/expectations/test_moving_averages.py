"""The suites of moving averages: good rows pass all of each, and each fault fails the check that is about it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from expectations import latest_moving_averages, moving_averages, station_sessions
from keyfold.keyed.parameters import build_job
from spark_jobs.jobs.moving_averages.job import MOVING_AVERAGES
from spark_jobs.jobs.moving_averages.tables import STATION_SESSION
from tests.expectations.failed_checks import failed_checks

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


def failed(spark, table, rows):
    expectations, columns = SUITES[table]
    return failed_checks(spark, rows, columns, expectations)


@pytest.mark.parametrize("table", SUITES)
def test_good_rows_pass_the_whole_suite(spark, table):
    assert failed(spark, table, GOOD[table]) == set()


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ({"station_id": None}, "station_id_is_there"),
        ({"end_time": NOON}, "ends_after_it_starts"),
        ({"end_time": NOON + 10 * HOUR, "start_time": NOON}, "one_row_a_reading"),
        ({"n_readings": 0, "reason": "TIMEOUT"}, "has_readings"),
        ({"reason": "BORED"}, "reason_is_known"),
        ({"n_readings": 9}, "full_windows_are_of_one_size"),
        ({"pressure_avg": 29.9}, "pressure_is_plausible"),
        ({"temp_avg": 284.0}, "temp_is_plausible"),
    ],
)
def test_a_faulty_average_fails_the_check_that_is_about_it(spark, fault, check):
    assert check in failed(spark, "moving_averages", [*GOOD["moving_averages"], average(50, **fault)])


def test_stations_that_come_and_go_are_told(spark):
    rows = [average(number, n_readings=4, reason="TIMEOUT") for number in range(100, 105)]
    assert failed(spark, "moving_averages", [*GOOD["moving_averages"], *rows]) == {"most_windows_are_full"}


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ({"station_id": None}, "station_id_is_there"),
        ({"station_id": "station-1"}, "one_row_a_station"),
        ({"end_time": NOON - HOUR}, "ends_after_it_starts"),
        ({"reason": "BORED"}, "reason_is_known"),
        ({"pressure_avg": 29.9}, "pressure_is_plausible"),
        ({"temp_avg": 284.0}, "temp_is_plausible"),
        ({"start_time": NOON - 40 * HOUR, "end_time": NOON - 30 * HOUR}, "no_station_lags_behind"),
    ],
)
def test_a_faulty_latest_row_fails_the_check_that_is_about_it(spark, fault, check):
    table = "latest_moving_averages"
    assert check in failed(spark, table, [*GOOD[table], average(0, **{"station_id": "LGA", **fault})])


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ({"station_id": None}, "station_id_is_there"),
        ({"end_time": NOON}, "ends_after_it_starts"),
        ({"n_readings": 0}, "has_readings"),
        ({"reason": "BORED"}, "reason_is_known"),
        ({"start_time": NOON + 910 * HOUR}, "sessions_do_not_overlap"),
        ({"n_readings": 1}, "a_lone_reading_takes_no_time"),
    ],
)
def test_a_faulty_session_fails_the_check_that_is_about_it(spark, fault, check):
    assert check in failed(spark, "station_sessions", [*GOOD["station_sessions"], session(30, **fault)])


def test_sessions_too_short_for_a_window_are_told(spark):
    rows = [session(number, n_readings=4) for number in range(30, 40)]
    assert failed(spark, "station_sessions", [*GOOD["station_sessions"], *rows]) == {"most_sessions_fill_a_window"}


@pytest.mark.parametrize("table", SUITES)
def test_severities_are_mixed(table):
    assert {one["severity"] for one in SUITES[table][0].values()} == {"critical", "warning", "info"}
