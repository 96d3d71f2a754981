"""What holds for `model_totals`, by check name."""

from keyfold.suite import Suite

EXPECTATIONS: Suite = {
    "model_is_there": {
        "type": "expect_column_values_to_not_be_null",
        "kwargs": {"column": "model"},
        "severity": "critical",
        "description": "Every total is of a model; that of purchases without one has the empty text.",
    },
    "one_row_a_model": {
        "type": "expect_column_values_to_be_unique",
        "kwargs": {"column": "model"},
        "severity": "critical",
        "description": "A model has one total.",
    },
    "quantity_is_there": {
        "type": "expect_column_values_to_not_be_null",
        "kwargs": {"column": "quantity"},
        "severity": "critical",
        "description": "Every model has a quantity.",
    },
    "a_total_is_of_a_purchase_at_least": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "purchases", "min_value": 1},
        "severity": "critical",
        "description": "A total is there because somebody bought or returned the model.",
    },
    "latest_is_there": {
        "type": "expect_column_values_to_not_be_null",
        "kwargs": {"column": "latest"},
        "severity": "critical",
        "description": "Every model was bought or returned at a time.",
    },
    "no_more_is_returned_than_bought": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "quantity", "min_value": 0, "mostly": 0.9},
        "severity": "warning",
        "description": "Nine totals of ten are not below zero; more mean returns of what was bought before the data begins.",
    },
    "most_purchases_name_a_model": {
        "type": "unexpected_rows_expectation",
        "kwargs": {
            "unexpected_rows_query": (
                "SELECT * FROM (SELECT sum(purchases) AS purchases, "
                "sum(CASE WHEN model = '' THEN purchases ELSE 0 END) AS without FROM {batch}) WHERE without * 2 > purchases"
            )
        },
        "severity": "warning",
        "description": "Most purchases name a model: else these totals tell of few of them.",
    },
    "mean_quantity_is_usual": {
        "type": "expect_column_mean_to_be_between",
        "kwargs": {"column": "quantity", "min_value": 1},
        "severity": "info",
        "description": "Models sell at all, on average.",
    },
}
