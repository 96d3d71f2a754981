"""The suite of the event index: good rows pass all of it, and each fault fails the check that is about it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from expectations.event_index import EXPECTATIONS, expectations_for
from keyfold.keyed.job.parameters import build_job
from spark_jobs.jobs.event_index import EVENT_INDEX
from spark_jobs.streams import SALES
from tests.expectations.failed_checks import failed_checks

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
JOB = build_job(EVENT_INDEX)


def point(index: int | None, ride: str | None = "a", **changes: Any) -> dict[str, Any]:
    good = dict.fromkeys(JOB.output.names)
    minutes = timedelta(minutes=index or 0)
    return {**good, "ride_id": ride, "timestamp": NOON + minutes, "event_index": index, **changes}


GOOD = [point(index, ride) for ride in ("a", "b") for index in range(20)]


def test_good_rows_pass_the_whole_suite(spark):
    same_moment = point(20, timestamp=NOON + timedelta(minutes=19))
    assert failed_checks(spark, [*GOOD, same_moment], JOB.output, EXPECTATIONS) == set()


@pytest.mark.parametrize(
    ("fault", "checks"),
    [
        (point(0, ride=None), {"ride_id_is_there"}),
        (point(None), {"event_index_is_there", "no_number_is_skipped"}),
        (point(-1), {"counts_from_nought", "no_number_is_skipped"}),
        (point(19), {"one_event_a_number", "no_number_is_skipped"}),
        (point(21), {"no_number_is_skipped"}),
        (point(20, timestamp=NOON), {"numbers_follow_time"}),
        (point(10**8, "c"), {"no_number_is_skipped", "mean_index_is_usual"}),
    ],
)
def test_a_fault_fails_the_check_that_is_about_it(spark, fault, checks):
    assert failed_checks(spark, [*GOOD, fault], JOB.output, EXPECTATIONS) == checks


def test_another_key_has_a_suite_of_its_own(spark):
    suite = expectations_for(("item", "quantity"), "time")
    output = build_job(EVENT_INDEX, {"stream": SALES.name, "key": "item,quantity"}).output
    good = dict.fromkeys(output.names)
    rows = [
        {**good, "item": item, "quantity": quantity, "time": NOON, "event_index": 0}
        for item in "ab"
        for quantity in (1, 2)
    ]
    assert failed_checks(spark, rows, output, suite) == set()
    assert failed_checks(spark, [*rows, rows[0]], output, suite) == {"one_event_a_number", "no_number_is_skipped"}


@pytest.mark.parametrize(
    ("fault", "checks"),
    [
        (point(20), set()),
        (point(0), set()),
        (point(21), {"each_life_counts_from_nought"}),
        (point(19, "b"), {"each_life_counts_from_nought"}),
    ],
)
def test_where_numbers_expire_each_life_of_a_key_counts_from_nought(spark, fault, checks):
    suite = expectations_for(("ride_id",), "timestamp", expires=True)
    second_life = [point(index, "a") for index in range(5)]
    assert failed_checks(spark, [*GOOD, *second_life, fault], JOB.output, suite) == checks


HOUR = timedelta(hours=1)
IN_WINDOWS = build_job(EVENT_INDEX, {"window": "1h every 30m"})


def in_window(index: int, start: datetime, **changes: Any) -> dict[str, Any]:
    minutes = timedelta(minutes=index)
    return {
        **dict.fromkeys(IN_WINDOWS.output.names), "ride_id": "a", "timestamp": start + minutes, "window_start": start,
        "window_end": start + HOUR, "event_index": index, **changes,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fault", "checks"),
    [
        ({}, set()),
        ({"timestamp": NOON + 2 * HOUR}, {"an_event_is_in_its_window"}),
        ({"window_end": None}, {"an_event_is_in_its_window"}),
        ({"window_end": NOON + 3 * HOUR}, {"windows_have_one_length"}),
        ({"event_index": 19}, {"one_event_a_number", "no_number_is_skipped"}),
    ],
)
def test_a_fault_in_windows_fails_the_check_that_is_about_it(spark, fault, checks):
    suite = expectations_for(("ride_id",), "timestamp", windows=True)
    rows = [in_window(index, start) for start in (NOON, NOON + HOUR / 2) for index in range(20)]
    last = in_window(20, NOON + HOUR / 2, **fault)
    if "timestamp" not in fault:
        last["timestamp"] = NOON + HOUR / 2 + timedelta(minutes=20)
    assert failed_checks(spark, [*rows, last], IN_WINDOWS.output, suite) == checks
