"""What holds for `sales_windows`, by check name."""

from keyfold.suite import Suite

EXPECTATIONS: Suite = {
    "window_is_there": {
        "type": "expect_column_values_to_not_be_null",
        "kwargs": {"column": "window_start"},
        "severity": "critical",
        "description": "Every row names its window.",
    },
    "one_row_a_window": {
        "type": "expect_column_values_to_be_unique",
        "kwargs": {"column": "window_start"},
        "severity": "critical",
        "description": "A window closes once; with two rows its sales count twice.",
    },
    "has_products": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "n_products", "min_value": 1},
        "severity": "critical",
        "description": "A window without a sale has no row.",
    },
    "no_more_products_than_sales": {
        "type": "expect_column_pair_values_a_to_be_greater_than_b",
        "kwargs": {"column_A": "n_sales", "column_B": "n_products", "or_equal": True},
        "severity": "critical",
        "description": "Every product was sold or returned at least once.",
    },
    "windows_are_of_one_length": {
        "type": "unexpected_rows_expectation",
        "kwargs": {
            "unexpected_rows_query": (
                "SELECT * FROM {batch} WHERE unix_micros(window_end) - unix_micros(window_start) <> "
                "(SELECT max(unix_micros(window_end) - unix_micros(window_start)) FROM {batch}) "
                "OR window_end <= window_start"
            )
        },
        "severity": "critical",
        "description": "All windows are as long as each other: the length is a parameter of the job.",
    },
    "more_is_sold_than_returned": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "quantity", "min_value": 0, "mostly": 0.9},
        "severity": "warning",
        "description": "In nine windows of ten no more comes back than is sold.",
    },
    "revenue_is_not_negative": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "revenue", "min_value": 0, "mostly": 0.9},
        "severity": "warning",
        "description": "In nine windows of ten no more is paid back than is paid.",
    },
    "mean_number_of_sales_is_usual": {
        "type": "expect_column_mean_to_be_between",
        "kwargs": {"column": "n_sales", "min_value": 2},
        "severity": "info",
        "description": "Windows hold two sales at least on average; with fewer they are too short to rank anything.",
    },
}
