"""What holds for `sales_windows`, by check name."""

from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "window_is_there": critical(
        "expect_column_values_to_not_be_null", "Every row names its window.", column="window_start"
    ),
    "one_row_a_window": critical(
        "expect_column_values_to_be_unique",
        "A window closes once; with two rows its sales count twice.",
        column="window_start",
    ),
    "has_products": critical(
        "expect_column_values_to_be_between", "A window without a sale has no row.", column="n_products", min_value=1
    ),
    "no_more_products_than_sales": critical(
        "expect_column_pair_values_a_to_be_greater_than_b",
        "Every product was sold or returned at least once.",
        column_A="n_sales",
        column_B="n_products",
        or_equal=True,
    ),
    "windows_are_of_one_length": critical(
        "unexpected_rows_expectation",
        "All windows are as long as each other: the length is a parameter of the job.",
        unexpected_rows_query="SELECT * FROM {batch} WHERE unix_micros(window_end) - unix_micros(window_start) <> "
        "(SELECT max(unix_micros(window_end) - unix_micros(window_start)) FROM {batch}) "
        "OR window_end <= window_start",
    ),
    "more_is_sold_than_returned": warning(
        "expect_column_values_to_be_between",
        "In nine windows of ten no more comes back than is sold.",
        column="quantity",
        min_value=0,
        mostly=0.9,
    ),
    "revenue_is_not_negative": warning(
        "expect_column_values_to_be_between",
        "In nine windows of ten no more is paid back than is paid.",
        column="revenue",
        min_value=0,
        mostly=0.9,
    ),
    "mean_number_of_sales_is_usual": info(
        "expect_column_mean_to_be_between",
        "Windows hold two sales at least on average; with fewer they are too short to rank anything.",
        column="n_sales",
        min_value=2,
    ),
}
