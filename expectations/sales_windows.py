"""What holds for `sales_windows`, by check name."""

from great_expectations.expectations import (
    Expectation,
    ExpectColumnMeanToBeBetween,
    ExpectColumnPairValuesAToBeGreaterThanB,
    ExpectColumnValuesToBeBetween,
    ExpectColumnValuesToBeUnique,
    ExpectColumnValuesToNotBeNull,
    UnexpectedRowsExpectation,
)
from great_expectations.expectations.metadata_types import FailureSeverity

EXPECTATIONS: dict[str, Expectation] = {
    "window_is_there": ExpectColumnValuesToNotBeNull(
        column="window_start", severity=FailureSeverity.CRITICAL, description="Every row names its window."
    ),
    "one_row_a_window": ExpectColumnValuesToBeUnique(
        column="window_start",
        severity=FailureSeverity.CRITICAL,
        description="A window closes once; with two rows its sales count twice.",
    ),
    "has_products": ExpectColumnValuesToBeBetween(
        column="n_products",
        min_value=1,
        severity=FailureSeverity.CRITICAL,
        description="A window without a sale has no row.",
    ),
    "no_more_products_than_sales": ExpectColumnPairValuesAToBeGreaterThanB(
        column_A="n_sales",
        column_B="n_products",
        or_equal=True,
        severity=FailureSeverity.CRITICAL,
        description="Every product was sold or returned at least once.",
    ),
    "windows_are_of_one_length": UnexpectedRowsExpectation(
        unexpected_rows_query=(
            "SELECT * FROM {batch} WHERE unix_micros(window_end) - unix_micros(window_start) <> "
            "(SELECT max(unix_micros(window_end) - unix_micros(window_start)) FROM {batch}) "
            "OR window_end <= window_start"
        ),
        severity=FailureSeverity.CRITICAL,
        description="All windows are as long as each other: the length is a parameter of the job.",
    ),
    "more_is_sold_than_returned": ExpectColumnValuesToBeBetween(
        column="quantity",
        min_value=0,
        mostly=0.9,
        severity=FailureSeverity.WARNING,
        description="In nine windows of ten no more comes back than is sold.",
    ),
    "revenue_is_not_negative": ExpectColumnValuesToBeBetween(
        column="revenue",
        min_value=0,
        mostly=0.9,
        severity=FailureSeverity.WARNING,
        description="In nine windows of ten no more is paid back than is paid.",
    ),
    "mean_number_of_sales_is_usual": ExpectColumnMeanToBeBetween(
        column="n_sales",
        min_value=2,
        severity=FailureSeverity.INFO,
        description="Windows hold two sales at least on average; with fewer they are too short to rank anything.",
    ),
}
