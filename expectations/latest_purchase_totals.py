"""What holds for `latest_purchase_totals`, by check name."""

from expectations import purchase_totals
from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "item_is_there": critical("expect_column_values_to_not_be_null", "Every total names its item.", column="item"),
    "one_row_an_item": critical("expect_column_values_to_be_unique", "An item has one total.", column="item"),
    "quantity_is_there": critical("expect_column_values_to_not_be_null", "Every item has a total.", column="quantity"),
    "models_are_a_sorted_set": purchase_totals.EXPECTATIONS["models_are_a_sorted_set"],
    "no_more_is_returned_than_bought": warning(
        "expect_column_values_to_be_between",
        "Nine totals of ten are not below zero.",
        column="quantity",
        min_value=0,
        mostly=0.9,
    ),
    "an_item_has_few_models": warning(
        "unexpected_rows_expectation",
        "No item has more than a hundred models: free text would make each row of it long, and state too.",
        unexpected_rows_query="SELECT * FROM {batch} WHERE size(models) > 100",
    ),
    "mean_quantity_is_usual": info(
        "expect_column_mean_to_be_between", "Items sell at all, on average.", column="quantity", min_value=1
    ),
}
