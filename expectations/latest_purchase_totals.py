"""What holds for `latest_purchase_totals`, by check name."""

from great_expectations.expectations import (
    Expectation,
    ExpectColumnMeanToBeBetween,
    ExpectColumnValuesToBeBetween,
    ExpectColumnValuesToBeUnique,
    ExpectColumnValuesToNotBeNull,
    UnexpectedRowsExpectation,
)
from great_expectations.expectations.metadata_types import FailureSeverity

from expectations import purchase_totals

EXPECTATIONS: dict[str, Expectation] = {
    "item_is_there": ExpectColumnValuesToNotBeNull(
        column="item", severity=FailureSeverity.CRITICAL, description="Every total names its item."
    ),
    "one_row_an_item": ExpectColumnValuesToBeUnique(
        column="item", severity=FailureSeverity.CRITICAL, description="An item has one total."
    ),
    "quantity_is_there": ExpectColumnValuesToNotBeNull(
        column="quantity", severity=FailureSeverity.CRITICAL, description="Every item has a total."
    ),
    "models_are_a_sorted_set": purchase_totals.EXPECTATIONS["models_are_a_sorted_set"],
    "no_more_is_returned_than_bought": ExpectColumnValuesToBeBetween(
        column="quantity",
        min_value=0,
        mostly=0.9,
        severity=FailureSeverity.WARNING,
        description="Nine totals of ten are not below zero.",
    ),
    "an_item_has_few_models": UnexpectedRowsExpectation(
        unexpected_rows_query="SELECT * FROM {batch} WHERE size(models) > 100",
        severity=FailureSeverity.WARNING,
        description="No item has more than a hundred models: free text would make each row of it long, and state too.",
    ),
    "mean_quantity_is_usual": ExpectColumnMeanToBeBetween(
        column="quantity",
        min_value=1,
        severity=FailureSeverity.INFO,
        description="Items sell at all, on average.",
    ),
}
