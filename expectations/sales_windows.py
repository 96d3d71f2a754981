"""What holds for `sales_windows`, by check name."""

from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "window_is_there": critical.not_null("window_start", "Every row names its window."),
    "one_row_a_window": critical.unique("window_start", "A window closes once; with two rows its sales count twice."),
    "has_products": critical.between("n_products", "A window without a sale has no row.", min_value=1),
    "no_more_products_than_sales": critical.at_least(
        "n_sales", "n_products", "Every product was sold or returned at least once."
    ),
    "windows_are_of_one_length": critical.never(
        "unix_micros(window_end) - unix_micros(window_start) <> "
        "(SELECT max(unix_micros(window_end) - unix_micros(window_start)) FROM {batch}) "
        "OR window_end <= window_start",
        "All windows are as long as each other: the length is a parameter of the job.",
    ),
    "more_is_sold_than_returned": warning.between(
        "quantity", "In nine windows of ten no more comes back than is sold.", min_value=0, mostly=0.9
    ),
    "revenue_is_not_negative": warning.between(
        "revenue", "In nine windows of ten no more is paid back than is paid.", min_value=0, mostly=0.9
    ),
    "mean_number_of_sales_is_usual": info.mean_between(
        "n_sales",
        "Windows hold two sales at least on average; with fewer they are too short to rank anything.",
        min_value=2,
    ),
}
