"""What holds for `top_products`, by check name."""

from great_expectations.expectations import (
    Expectation,
    ExpectColumnMeanToBeBetween,
    ExpectColumnPairValuesAToBeGreaterThanB,
    ExpectColumnValuesToBeBetween,
    ExpectColumnValuesToNotBeNull,
    ExpectCompoundColumnsToBeUnique,
    UnexpectedRowsExpectation,
)
from great_expectations.expectations.metadata_types import FailureSeverity

EXPECTATIONS: dict[str, Expectation] = {
    "product_is_there": ExpectColumnValuesToNotBeNull(
        column="product", severity=FailureSeverity.CRITICAL, description="Every rank names its product."
    ),
    "one_product_a_rank": ExpectCompoundColumnsToBeUnique(
        column_list=["window_start", "rank"],
        severity=FailureSeverity.CRITICAL,
        description="A window has each rank once.",
    ),
    "one_rank_a_product": ExpectCompoundColumnsToBeUnique(
        column_list=["window_start", "product"],
        severity=FailureSeverity.CRITICAL,
        description="A window ranks each product once.",
    ),
    "no_rank_is_skipped": UnexpectedRowsExpectation(
        unexpected_rows_query=(
            "SELECT window_start, count(*) AS ranks FROM {batch} GROUP BY window_start "
            "HAVING min(rank) <> 1 OR max(rank) <> count(*)"
        ),
        severity=FailureSeverity.CRITICAL,
        description="A window's ranks count from 1 without gaps.",
    ),
    "ranks_follow_quantities": UnexpectedRowsExpectation(
        unexpected_rows_query=(
            "SELECT * FROM (SELECT *, lag(quantity) OVER (PARTITION BY window_start ORDER BY rank) AS better FROM {batch}) "
            "WHERE quantity > better"
        ),
        severity=FailureSeverity.CRITICAL,
        description="No product sold more than the one ranked before it.",
    ),
    "window_ends_after_it_starts": ExpectColumnPairValuesAToBeGreaterThanB(
        column_A="window_end",
        column_B="window_start",
        severity=FailureSeverity.CRITICAL,
        description="Windows take time.",
    ),
    "best_sellers_are_sold": ExpectColumnValuesToBeBetween(
        column="quantity",
        min_value=1,
        mostly=0.95,
        severity=FailureSeverity.WARNING,
        description="Nineteen best-sellers of twenty sold more than came back; fewer means windows of returns alone.",
    ),
    "revenue_is_not_negative": ExpectColumnValuesToBeBetween(
        column="revenue",
        min_value=0,
        mostly=0.95,
        severity=FailureSeverity.WARNING,
        description="Nineteen best-sellers of twenty bring money in.",
    ),
    "mean_quantity_is_usual": ExpectColumnMeanToBeBetween(
        column="quantity",
        min_value=1,
        max_value=10_000,
        severity=FailureSeverity.INFO,
        description="A best-seller of a window sells up to ten thousand pieces on average.",
    ),
}
