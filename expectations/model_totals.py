"""What holds for `model_totals`, by check name."""

from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "model_is_there": critical(
        "expect_column_values_to_not_be_null",
        "Every total is of a model; that of purchases without one has the empty text.",
        column="model",
    ),
    "one_row_a_model": critical("expect_column_values_to_be_unique", "A model has one total.", column="model"),
    "quantity_is_there": critical(
        "expect_column_values_to_not_be_null", "Every model has a quantity.", column="quantity"
    ),
    "a_total_is_of_a_purchase_at_least": critical(
        "expect_column_values_to_be_between",
        "A total is there because somebody bought or returned the model.",
        column="purchases",
        min_value=1,
    ),
    "latest_is_there": critical(
        "expect_column_values_to_not_be_null", "Every model was bought or returned at a time.", column="latest"
    ),
    "no_more_is_returned_than_bought": warning(
        "expect_column_values_to_be_between",
        "Nine totals of ten are not below zero; more mean returns of what was bought before the data begins.",
        column="quantity",
        min_value=0,
        mostly=0.9,
    ),
    "most_purchases_name_a_model": warning(
        "unexpected_rows_expectation",
        "Most purchases name a model: else these totals tell of few of them.",
        unexpected_rows_query="SELECT * FROM (SELECT sum(purchases) AS purchases, "
        "sum(CASE WHEN model = '' THEN purchases ELSE 0 END) AS without FROM {batch}) WHERE without * 2 > purchases",
    ),
    "mean_quantity_is_usual": info(
        "expect_column_mean_to_be_between", "Models sell at all, on average.", column="quantity", min_value=1
    ),
}
