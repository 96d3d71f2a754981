"""What holds for `latest_top_products`, by check name."""

from expectations import top_products
from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "is_open_is_told": critical(
        "expect_column_values_to_not_be_null", "Every row says whether its window is open.", column="is_open"
    ),
    "one_row_a_rank": critical(
        "expect_compound_columns_to_be_unique",
        "A window has each rank once: rows are updated in place.",
        column_list=["window_start", "rank"],
    ),
    "windows_close_as_a_whole": critical(
        "unexpected_rows_expectation",
        "No window has rows that are final beside rows that are not.",
        unexpected_rows_query="SELECT window_start FROM {batch} GROUP BY window_start HAVING count(DISTINCT is_open) > 1",
    ),
    **{
        name: top_products.EXPECTATIONS[name]
        for name in ("product_is_there", "no_rank_is_skipped", "ranks_follow_quantities")
    },
    "no_window_stays_open": warning(
        "unexpected_rows_expectation",
        "No window is still open a week before the newest one begins: the watermark would stand still.",
        unexpected_rows_query="SELECT * FROM {batch} WHERE is_open "
        "AND window_end < (SELECT max(window_start) FROM {batch}) - INTERVAL 7 DAYS",
    ),
    "mean_quantity_is_usual": info(
        "expect_column_mean_to_be_between",
        "A best-seller of a window sells up to ten thousand pieces on average.",
        column="quantity",
        min_value=1,
        max_value=10_000,
    ),
}
