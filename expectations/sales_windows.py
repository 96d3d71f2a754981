"""Expectations on `sales_windows`, by check name."""

from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "window_is_there": critical.not_null("window_start", "Every row names its window."),
    "one_row_a_window": critical.unique("window_start", "A window closes once; with two rows its sales count twice."),
    "has_products": critical.between("n_products", "Every window has at least one product.", min_value=1),
    "no_more_products_than_sales": critical.at_least(
        "n_sales", "n_products", "A window has at least as many sales as products."
    ),
    "windows_are_of_one_length": critical.never(
        "window_end - window_start <> (SELECT max(window_end - window_start) FROM {batch}) OR window_end <= window_start",
        "All windows have the same length, which is a parameter of the job.",
    ),
    "more_is_sold_than_returned": warning.between(
        "quantity", "In at least 90 % of the windows, no more pieces are returned than sold.", min_value=0, mostly=0.9
    ),
    "revenue_is_not_negative": warning.between(
        "revenue", "In at least 90 % of the windows, the revenue is not negative.", min_value=0, mostly=0.9
    ),
    "mean_number_of_sales_is_usual": info.mean_between(
        "n_sales",
        "Windows have at least two sales on average; with fewer, they are too short for ranking.",
        min_value=2,
    ),
}
