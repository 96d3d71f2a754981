"""What holds for `top_products`, by check name."""

from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "product_is_there": critical(
        "expect_column_values_to_not_be_null", "Every rank names its product.", column="product"
    ),
    "one_product_a_rank": critical(
        "expect_compound_columns_to_be_unique", "A window has each rank once.", column_list=["window_start", "rank"]
    ),
    "one_rank_a_product": critical(
        "expect_compound_columns_to_be_unique",
        "A window ranks each product once.",
        column_list=["window_start", "product"],
    ),
    "no_rank_is_skipped": critical(
        "unexpected_rows_expectation",
        "A window's ranks count from 1 without gaps.",
        unexpected_rows_query="SELECT window_start, count(*) AS ranks FROM {batch} GROUP BY window_start "
        "HAVING min(rank) <> 1 OR max(rank) <> count(*)",
    ),
    "ranks_follow_quantities": critical(
        "unexpected_rows_expectation",
        "No product sold more than the one ranked before it.",
        unexpected_rows_query="SELECT * FROM (SELECT *, lag(quantity) OVER (PARTITION BY window_start ORDER BY rank) AS better FROM {batch}) "
        "WHERE quantity > better",
    ),
    "window_ends_after_it_starts": critical(
        "expect_column_pair_values_a_to_be_greater_than_b",
        "Windows take time.",
        column_A="window_end",
        column_B="window_start",
    ),
    "best_sellers_are_sold": warning(
        "expect_column_values_to_be_between",
        "Nineteen best-sellers of twenty sold more than came back; fewer means windows of returns alone.",
        column="quantity",
        min_value=1,
        mostly=0.95,
    ),
    "revenue_is_not_negative": warning(
        "expect_column_values_to_be_between",
        "Nineteen best-sellers of twenty bring money in.",
        column="revenue",
        min_value=0,
        mostly=0.95,
    ),
    "mean_quantity_is_usual": info(
        "expect_column_mean_to_be_between",
        "A best-seller of a window sells up to ten thousand pieces on average.",
        column="quantity",
        min_value=1,
        max_value=10_000,
    ),
}
