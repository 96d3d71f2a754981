"""The suites of purchase totals: each fault beside good rows fails the check that is about it alone."""

from datetime import UTC, datetime, timedelta
from typing import Any

from expectations import latest_purchase_totals, purchase_totals
from spark_jobs.jobs.purchase_totals import LATEST_PURCHASE_TOTAL, PURCHASE_TOTAL
from tests.expectations.failed_checks import failed_checks, rows_found

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def purchase(number: int, item: str = "cup", **changes: Any) -> dict[str, Any]:
    """The so-many-th purchase of two pieces."""
    good = {
        "item": item,
        "delta_quantity": 2,
        "cumulative_quantity": 2 * (number + 1),
        "models": ["a", "b"],
        "event_time": NOON + timedelta(minutes=number),
    }
    return {**good, **changes}


def total(number: int, **changes: Any) -> dict[str, Any]:
    return {"item": f"item-{number}", "quantity": 10, "models": ["a"], **changes}


GOOD = [purchase(number, item) for item in ("cup", "hat") for number in range(20)]
UNTOLD = purchase(0, "pot", models=[])


def test_each_fault_in_the_changes_is_found_by_the_check_that_is_about_it():
    faults = [
        purchase(0, item=None),  # type: ignore[arg-type]
        purchase(0, "a", event_time=None),
        purchase(1, "b"),
        purchase(0, "c"),
        purchase(0, "c"),
        purchase(0, "d", models=None),
        purchase(0, "e", models=["b", "a"]),
        purchase(0, "f", models=["a", "a"]),
        purchase(0, "g", models=["", "a"]),
        purchase(0, "h", delta_quantity=0, cumulative_quantity=0),
    ]
    assert rows_found([*GOOD, UNTOLD, *faults], PURCHASE_TOTAL, purchase_totals.EXPECTATIONS) == {
        "item_is_there": 1,
        "event_time_is_there": 1,
        "totals_add_up": 2,
        "models_are_a_sorted_set": 4,
        "delta_is_not_nought": 1,
    }


def test_changes_that_are_unusual_as_a_whole_are_told():
    huge = purchase(0, "pot", delta_quantity=-(10**6), cumulative_quantity=-(10**6))
    returned = [purchase(0, f"pot-{one}", delta_quantity=-1, cumulative_quantity=-1) for one in range(5)]
    told = rows_found([*GOOD, huge, *returned], PURCHASE_TOTAL, purchase_totals.EXPECTATIONS)
    assert told.keys() == {"delta_is_plausible", "mean_delta_is_usual", "no_more_is_returned_than_bought"}


def test_where_totals_expire_one_may_begin_from_nothing_and_none_from_what_never_was():
    begins_anew = purchase(99, delta_quantity=4, cumulative_quantity=4)
    assert failed_checks([*GOOD, begins_anew], PURCHASE_TOTAL, purchase_totals.EXPIRING) == set()
    from_nowhere = purchase(99, delta_quantity=4, cumulative_quantity=99_999)
    told = failed_checks([*GOOD, from_nowhere], PURCHASE_TOTAL, purchase_totals.EXPIRING)
    assert told == {"each_is_added_to_what_there_was"}


def test_each_fault_in_the_totals_is_found_by_the_check_that_is_about_it():
    faults = [
        total(50, item=None),
        total(0),
        total(51, quantity=None),
        total(52, models=["b", "a"]),
        total(53, models=sorted(map(str, range(101)))),
    ]
    rows = [*(total(number) for number in range(20)), total(99, models=[], quantity=0), *faults]
    assert rows_found(rows, LATEST_PURCHASE_TOTAL, latest_purchase_totals.EXPECTATIONS) == {
        "item_is_there": 1,
        "one_row_an_item": 2,
        "quantity_is_there": 1,
        "models_are_a_sorted_set": 1,
        "an_item_has_few_models": 1,
    }


def test_totals_that_are_unusual_as_a_whole_are_told():
    returned = [total(90 + one, quantity=-1) for one in range(3)]
    rows = [*(total(number) for number in range(20)), *returned, total(99, quantity=-(10**6))]
    assert failed_checks(rows, LATEST_PURCHASE_TOTAL, latest_purchase_totals.EXPECTATIONS) == {
        "no_more_is_returned_than_bought",
        "mean_quantity_is_usual",
    }
