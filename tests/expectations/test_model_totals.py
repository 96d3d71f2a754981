"""The suite of model totals: each fault beside good rows fails the check that is about it alone."""

from datetime import UTC, datetime
from typing import Any

from expectations.model_totals import EXPECTATIONS
from spark_jobs.jobs.model_totals import MODEL_TOTAL
from tests.expectations.failed_checks import failed_checks, rows_found

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def total(model: str | None, **changes: Any) -> dict[str, Any]:
    return {"model": model, "quantity": 10, "purchases": 4, "latest": NOON, **changes}


GOOD = [total(""), *(total(f"model {number}") for number in range(20))]


def test_each_fault_is_found_by_the_check_that_is_about_it():
    faults = [
        total(None),
        total("model 0"),
        total("a", quantity=None),
        total("b", purchases=0),
        total("c", latest=None),
    ]
    assert rows_found([*GOOD, *faults], MODEL_TOTAL, EXPECTATIONS) == {
        "model_is_there": 1,
        "one_row_a_model": 2,
        "quantity_is_there": 1,
        "a_total_is_of_a_purchase_at_least": 1,
        "latest_is_there": 1,
    }


def test_totals_that_are_unusual_as_a_whole_are_told():
    returned = [total(f"new {one}", quantity=-1) for one in range(3)]
    rows = [*GOOD, *returned, total("new", quantity=-(10**6))]
    assert failed_checks(rows, MODEL_TOTAL, EXPECTATIONS) == {
        "no_more_is_returned_than_bought",
        "mean_quantity_is_usual",
    }


def test_a_shop_that_names_no_models_is_told():
    rows = [total("", purchases=81), *GOOD[1:]]
    assert failed_checks(rows, MODEL_TOTAL, EXPECTATIONS) == {"most_purchases_name_a_model"}
