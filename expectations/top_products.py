"""What holds for `top_products`, by check name."""

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
        "No product sold more than the one ranked before it.",
    ),
    "window_ends_after_it_starts": critical.greater("window_end", "window_start", "Windows take time."),
    "best_sellers_are_sold": warning.between(
        "quantity",
        "Nineteen best-sellers of twenty sold more than came back; fewer means windows of returns alone.",
        min_value=1,
        mostly=0.95,
    ),
    "revenue_is_not_negative": warning.between(
        "revenue", "Nineteen best-sellers of twenty bring money in.", min_value=0, mostly=0.95
    ),
    "mean_quantity_is_usual": info.mean_between(
        "quantity",
        "A best-seller of a window sells up to ten thousand pieces on average.",
        min_value=1,
        max_value=10_000,
    ),
}
