"""What holds for `latest_purchase_totals`, by check name."""

from expectations import purchase_totals
from keyfold.suite import Suite

EXPECTATIONS: Suite = {
    "item_is_there": {
        "type": "expect_column_values_to_not_be_null",
        "kwargs": {"column": "item"},
        "severity": "critical",
        "description": "Every total names its item.",
    },
    "one_row_an_item": {
        "type": "expect_column_values_to_be_unique",
        "kwargs": {"column": "item"},
        "severity": "critical",
        "description": "An item has one total.",
    },
    "quantity_is_there": {
        "type": "expect_column_values_to_not_be_null",
        "kwargs": {"column": "quantity"},
        "severity": "critical",
        "description": "Every item has a total.",
    },
    "models_are_a_sorted_set": purchase_totals.EXPECTATIONS["models_are_a_sorted_set"],
    "no_more_is_returned_than_bought": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "quantity", "min_value": 0, "mostly": 0.9},
        "severity": "warning",
        "description": "Nine totals of ten are not below zero.",
    },
    "an_item_has_few_models": {
        "type": "unexpected_rows_expectation",
        "kwargs": {"unexpected_rows_query": "SELECT * FROM {batch} WHERE size(models) > 100"},
        "severity": "warning",
        "description": "No item has more than a hundred models: free text would make each row of it long, and state too.",
    },
    "mean_quantity_is_usual": {
        "type": "expect_column_mean_to_be_between",
        "kwargs": {"column": "quantity", "min_value": 1},
        "severity": "info",
        "description": "Items sell at all, on average.",
    },
}
