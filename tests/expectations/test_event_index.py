"""The suite of the event index: each fault beside good rows fails the check that is about it alone."""

from datetime import UTC, datetime, timedelta
from typing import Any

from expectations.event_index import EXPECTATIONS, expectations_for
from keyfold.keyed.job.parameters import build_job
from spark_jobs.jobs.event_index import EVENT_INDEX
from spark_jobs.streams import SALES
from tests.expectations.failed_checks import failed_checks, rows_found

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
JOB = build_job(EVENT_INDEX)


def point(index: int | None, ride: str | None = "a", **changes: Any) -> dict[str, Any]:
    good = dict.fromkeys(JOB.output.names)
    minutes = timedelta(minutes=index or 0)
    return {**good, "ride_id": ride, "timestamp": NOON + minutes, "event_index": index, **changes}


def ride(name: str) -> list[dict[str, Any]]:
    return [point(index, name) for index in range(20)]


def test_each_fault_is_found_by_the_check_that_is_about_it():
    faults = [{"event_index": None}, {"event_index": -1}, {"event_index": 19}, {"event_index": 21}, {"timestamp": NOON}]
    faulty = [
        row
        for number, fault in enumerate(faults)
        for row in (*ride(f"ride-{number}"), point(fault.get("event_index", 20), f"ride-{number}") | fault)
    ]
    same_moment = point(20, timestamp=NOON + timedelta(minutes=19))
    assert rows_found([*ride("a"), same_moment, point(0, ride=None), *faulty], JOB.output, EXPECTATIONS) == {
        "ride_id_is_there": 1,
        "event_index_is_there": 1,
        "counts_from_nought": 1,
        "one_event_a_number": 2,
        "no_number_is_skipped": 4,  # of all but the first and the last
        "numbers_follow_time": 1,
    }


def test_a_key_of_very_many_events_is_told():
    rows = [*ride("a"), point(10**8, "c")]
    assert failed_checks(rows, JOB.output, EXPECTATIONS) == {"no_number_is_skipped", "mean_index_is_usual"}


def test_another_key_has_a_suite_of_its_own():
    suite = expectations_for(("item", "quantity"), "time")
    output = build_job(EVENT_INDEX, {"stream": SALES.name, "key": "item,quantity"}).output
    good = dict.fromkeys(output.names)
    rows = [
        {**good, "item": item, "quantity": quantity, "time": NOON, "event_index": 0}
        for item in "ab"
        for quantity in (1, 2)
    ]
    assert failed_checks(rows, output, suite) == set()
    assert failed_checks([*rows, rows[0]], output, suite) == {"one_event_a_number", "no_number_is_skipped"}


def test_where_numbers_expire_each_life_of_a_key_counts_from_nought():
    suite = expectations_for(("ride_id",), "timestamp", expires=True)
    two_lives = [*ride("a"), *ride("b"), *(point(index) for index in range(5))]
    assert rows_found([*two_lives, point(20), point(0)], JOB.output, suite) == {}
    assert rows_found([*two_lives, point(21), point(19, "b")], JOB.output, suite) == {"each_life_counts_from_nought": 2}


HOUR = timedelta(hours=1)
IN_WINDOWS = build_job(EVENT_INDEX, {"window": "1h every 30m"})


def in_window(index: int, start: datetime, ride: str = "a", **changes: Any) -> dict[str, Any]:
    windows = {"window_start": start, "window_end": start + HOUR}
    return {**dict.fromkeys(IN_WINDOWS.output.names), **point(index, ride), **windows, "timestamp": start, **changes}


def test_each_fault_in_windows_is_found_by_the_check_that_is_about_it():
    suite = expectations_for(("ride_id",), "timestamp", windows=True)
    good = [in_window(index, start) for start in (NOON, NOON + HOUR / 2) for index in range(20)]
    faults = [
        {"timestamp": NOON + 2 * HOUR},
        {"window_end": None},
        {"window_end": NOON + 3 * HOUR},
        {"event_index": 0},
    ]
    faulty = [
        row
        for number, fault in enumerate(faults)
        for row in (in_window(0, NOON, f"ride-{number}"), in_window(1, NOON, f"ride-{number}", **fault))
    ]
    assert rows_found([*good, *faulty], IN_WINDOWS.output, suite) == {
        "an_event_is_in_its_window": 2,
        "windows_have_one_length": 1,
        "one_event_a_number": 2,
        "no_number_is_skipped": 1,
    }
