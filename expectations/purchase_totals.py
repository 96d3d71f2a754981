"""What holds for `purchase_totals`, by check name."""

from great_expectations.expectations import (
    Expectation,
    ExpectColumnMeanToBeBetween,
    ExpectColumnValuesToBeBetween,
    ExpectColumnValuesToNotBeInSet,
    ExpectColumnValuesToNotBeNull,
    UnexpectedRowsExpectation,
)
from great_expectations.expectations.metadata_types import FailureSeverity

EXPECTATIONS: dict[str, Expectation] = {
    "item_is_there": ExpectColumnValuesToNotBeNull(
        column="item", severity=FailureSeverity.CRITICAL, description="Every purchase names its item."
    ),
    "event_time_is_there": ExpectColumnValuesToNotBeNull(
        column="event_time", severity=FailureSeverity.CRITICAL, description="Every purchase has its time."
    ),
    "totals_add_up": UnexpectedRowsExpectation(
        unexpected_rows_query=(
            "SELECT item, sum(delta_quantity) AS total FROM {batch} GROUP BY item "
            "HAVING NOT array_contains(collect_set(cumulative_quantity), sum(delta_quantity))"
        ),
        severity=FailureSeverity.CRITICAL,
        description="All purchases of an item come to one of its cumulative quantities: none is lost or counted twice.",
    ),
    "models_are_a_sorted_set": UnexpectedRowsExpectation(
        unexpected_rows_query=(
            "SELECT * FROM {batch} WHERE models IS NULL OR models <> sort_array(array_distinct(models)) "
            "OR array_contains(models, '')"
        ),
        severity=FailureSeverity.CRITICAL,
        description="Models are there, sorted, each once and none without a name.",
    ),
    "delta_is_not_nought": ExpectColumnValuesToNotBeInSet(
        column="delta_quantity",
        value_set=[0],
        severity=FailureSeverity.WARNING,
        description="A purchase of nothing is none.",
    ),
    "delta_is_plausible": ExpectColumnValuesToBeBetween(
        column="delta_quantity",
        min_value=-100_000,
        max_value=100_000,
        severity=FailureSeverity.WARNING,
        description="Nobody buys or returns more than a hundred thousand pieces at once.",
    ),
    "no_more_is_returned_than_bought": ExpectColumnValuesToBeBetween(
        column="cumulative_quantity",
        min_value=0,
        mostly=0.95,
        severity=FailureSeverity.WARNING,
        description="Nineteen totals of twenty are not below zero; more mean returns of what was bought before the data begins.",
    ),
    "mean_delta_is_usual": ExpectColumnMeanToBeBetween(
        column="delta_quantity",
        min_value=0,
        max_value=1000,
        severity=FailureSeverity.INFO,
        description="A purchase is of up to a thousand pieces on average.",
    ),
}
