"""Expectations on `top_products`, by check name."""

from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "product_is_there": critical.not_null("product", "Every rank names its product."),
    "one_product_a_rank": critical.unique(["window_start", "rank"], "A window has each rank once."),
    "one_rank_a_product": critical.unique(["window_start", "product"], "A window ranks each product once."),
    "no_rank_is_skipped": critical.no_rows(
        "SELECT window_start, count(*) AS ranks FROM {batch} GROUP BY window_start "
        "HAVING min(rank) <> 1 OR max(rank) <> count(*)",
        "A window's ranks count from 1 without gaps.",
    ),
    "ranks_follow_quantities": critical.no_rows(
        "SELECT * FROM (SELECT *, lag(quantity) OVER (PARTITION BY window_start ORDER BY rank) AS better FROM {batch}) "
        "WHERE quantity > better",
        "No product sold more than the product ranked before it.",
    ),
    "window_ends_after_it_starts": critical.greater("window_end", "window_start", "Every window ends after its start."),
    "best_sellers_are_sold": warning.between(
        "quantity",
        "At least 95 % of the best-sellers sold more than was returned; fewer means windows with only returns.",
        min_value=1,
        mostly=0.95,
    ),
    "revenue_is_not_negative": warning.between(
        "revenue", "At least 95 % of the best-sellers have positive revenue.", min_value=0, mostly=0.95
    ),
    "mean_quantity_is_usual": info.mean_between(
        "quantity",
        "The best-sellers sell at most 10,000 pieces a window on average.",
        min_value=1,
        max_value=10_000,
    ),
}
