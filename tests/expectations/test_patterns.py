"""The suites of the tables made of patterns: good rows pass all of it, and each fault fails the check that is about it."""

from datetime import UTC, datetime, timedelta
from typing import Any

from expectations import card_in_two_cities, card_in_two_cities_checked, ride_meter_jumps
from keyfold.keyed.job.parameters import build_job
from spark_jobs.jobs.card_in_two_cities import CARD_IN_TWO_CITIES
from spark_jobs.jobs.ride_meter_jumps import RIDE_METER_JUMPS
from tests.expectations.failed_checks import failed_checks, rows_found

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
CARDS, METERS = build_job(CARD_IN_TWO_CITIES), build_job(RIDE_METER_JUMPS)


def match(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "card": f"card {number}", "pattern": "two_cities", "first_time": NOON, "last_time": NOON + timedelta(minutes=5),
        "first_city": "Ulm", "last_city": "Trier", "first_amount": 1.5, "last_amount": 200.0, "first_merchant": None,
        "last_merchant": "kiosk", "first_payment_id": f"{number}a", "last_payment_id": f"{number}b", **changes,
    }  # fmt: skip


def jump(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "ride_id": f"ride {number}", "pattern": "jump", "first_time": NOON, "last_time": NOON + timedelta(seconds=9),
        "first_point_idx": 3, "last_point_idx": 4, "first_meter_reading": 3.0, "last_meter_reading": 13.0, **changes,
    }  # fmt: skip


MATCHES, JUMPS = [match(number) for number in range(5)], [jump(number) for number in range(5)]
HOURS = [{"card": card, "hour_start": NOON, "events": events} for card, events in (("a", 7), ("b", 1))]
EARLIER = NOON - timedelta(seconds=1)


def test_good_rows_pass_every_suite():
    assert failed_checks(MATCHES, CARDS.output, card_in_two_cities.EXPECTATIONS) == set()
    assert failed_checks(JUMPS, METERS.output, ride_meter_jumps.EXPECTATIONS) == set()
    assert failed_checks(HOURS, CARDS.side_outputs[0].schema, card_in_two_cities_checked.EXPECTATIONS) == set()


def test_faults_of_matches_fail_the_checks_that_are_about_them():
    suite = card_in_two_cities.EXPECTATIONS
    faults = [
        match(6, card=None), match(7, pattern="another"), match(0), match(8, last_city="Ulm"),
        match(9, last_time=EARLIER), match(10, last_amount=0.0), match(11, last_payment_id=None),
        *(match(number, card="busy") for number in range(20, 41)),
    ]  # fmt: skip
    assert failed_checks([*MATCHES, *faults], CARDS.output, suite) == set(suite)


def test_faults_of_jumps_fail_the_checks_that_are_about_them():
    suite = ride_meter_jumps.EXPECTATIONS
    faults = [
        jump(6, ride_id=None), jump(7, pattern="another"), jump(0), jump(8, last_meter_reading=3.0),
        jump(9, last_time=EARLIER), jump(10, last_point_idx=2), *(jump(11, first_point_idx=at) for at in range(-6, 0)),
    ]  # fmt: skip
    assert failed_checks([*JUMPS, *faults], METERS.output, suite) == set(suite)


def test_faults_of_the_account_fail_the_checks_that_are_about_them():
    faults = [
        {"card": "c", "hour_start": NOON + timedelta(minutes=1), "events": 7},
        {"card": "c", "hour_start": NOON, "events": 0},
        {"card": "a", "hour_start": NOON, "events": 1},
    ]
    schema = CARDS.side_outputs[0].schema
    assert rows_found([*HOURS, *faults], schema, card_in_two_cities_checked.EXPECTATIONS) == {
        "hours_are_whole": 1,
        "has_events": 1,
        "one_row_a_key_and_hour": 2,
    }
