"""What holds for `latest_top_products`, by check name."""

from great_expectations.expectations import (
    Expectation,
    ExpectColumnMeanToBeBetween,
    ExpectColumnValuesToNotBeNull,
    ExpectCompoundColumnsToBeUnique,
    UnexpectedRowsExpectation,
)
from great_expectations.expectations.metadata_types import FailureSeverity

from expectations import top_products

EXPECTATIONS: dict[str, Expectation] = {
    "is_open_is_told": ExpectColumnValuesToNotBeNull(
        column="is_open", severity=FailureSeverity.CRITICAL, description="Every row says whether its window is open."
    ),
    "one_row_a_rank": ExpectCompoundColumnsToBeUnique(
        column_list=["window_start", "rank"],
        severity=FailureSeverity.CRITICAL,
        description="A window has each rank once: rows are updated in place.",
    ),
    "windows_close_as_a_whole": UnexpectedRowsExpectation(
        unexpected_rows_query=(
            "SELECT window_start FROM {batch} GROUP BY window_start HAVING count(DISTINCT is_open) > 1"
        ),
        severity=FailureSeverity.CRITICAL,
        description="No window has rows that are final beside rows that are not.",
    ),
    **{
        name: top_products.EXPECTATIONS[name]
        for name in ("product_is_there", "no_rank_is_skipped", "ranks_follow_quantities")
    },
    "no_window_stays_open": UnexpectedRowsExpectation(
        unexpected_rows_query=(
            "SELECT * FROM {batch} WHERE is_open "
            "AND window_end < (SELECT max(window_start) FROM {batch}) - INTERVAL 7 DAYS"
        ),
        severity=FailureSeverity.WARNING,
        description="No window is still open a week before the newest one begins: the watermark would stand still.",
    ),
    "mean_quantity_is_usual": ExpectColumnMeanToBeBetween(
        column="quantity",
        min_value=1,
        max_value=10_000,
        severity=FailureSeverity.INFO,
        description="A best-seller of a window sells up to ten thousand pieces on average.",
    ),
}
