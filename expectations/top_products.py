"""What holds for `top_products`, by check name."""

from keyfold.suite import Suite

EXPECTATIONS: Suite = {
    "product_is_there": {
        "type": "expect_column_values_to_not_be_null",
        "kwargs": {"column": "product"},
        "severity": "critical",
        "description": "Every rank names its product.",
    },
    "one_product_a_rank": {
        "type": "expect_compound_columns_to_be_unique",
        "kwargs": {"column_list": ["window_start", "rank"]},
        "severity": "critical",
        "description": "A window has each rank once.",
    },
    "one_rank_a_product": {
        "type": "expect_compound_columns_to_be_unique",
        "kwargs": {"column_list": ["window_start", "product"]},
        "severity": "critical",
        "description": "A window ranks each product once.",
    },
    "no_rank_is_skipped": {
        "type": "unexpected_rows_expectation",
        "kwargs": {
            "unexpected_rows_query": (
                "SELECT window_start, count(*) AS ranks FROM {batch} GROUP BY window_start "
                "HAVING min(rank) <> 1 OR max(rank) <> count(*)"
            )
        },
        "severity": "critical",
        "description": "A window's ranks count from 1 without gaps.",
    },
    "ranks_follow_quantities": {
        "type": "unexpected_rows_expectation",
        "kwargs": {
            "unexpected_rows_query": (
                "SELECT * FROM (SELECT *, lag(quantity) OVER (PARTITION BY window_start ORDER BY rank) AS better FROM {batch}) "
                "WHERE quantity > better"
            )
        },
        "severity": "critical",
        "description": "No product sold more than the one ranked before it.",
    },
    "window_ends_after_it_starts": {
        "type": "expect_column_pair_values_a_to_be_greater_than_b",
        "kwargs": {"column_A": "window_end", "column_B": "window_start"},
        "severity": "critical",
        "description": "Windows take time.",
    },
    "best_sellers_are_sold": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "quantity", "min_value": 1, "mostly": 0.95},
        "severity": "warning",
        "description": "Nineteen best-sellers of twenty sold more than came back; fewer means windows of returns alone.",
    },
    "revenue_is_not_negative": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "revenue", "min_value": 0, "mostly": 0.95},
        "severity": "warning",
        "description": "Nineteen best-sellers of twenty bring money in.",
    },
    "mean_quantity_is_usual": {
        "type": "expect_column_mean_to_be_between",
        "kwargs": {"column": "quantity", "min_value": 1, "max_value": 10_000},
        "severity": "info",
        "description": "A best-seller of a window sells up to ten thousand pieces on average.",
    },
}
