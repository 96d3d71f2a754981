"""What holds for `purchase_totals`, by check name."""

from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "item_is_there": critical("expect_column_values_to_not_be_null", "Every purchase names its item.", column="item"),
    "event_time_is_there": critical(
        "expect_column_values_to_not_be_null", "Every purchase has its time.", column="event_time"
    ),
    "totals_add_up": critical(
        "unexpected_rows_expectation",
        "All purchases of an item come to one of its cumulative quantities: none is lost or counted twice.",
        unexpected_rows_query="SELECT item, sum(delta_quantity) AS total FROM {batch} GROUP BY item "
        "HAVING NOT array_contains(collect_set(cumulative_quantity), sum(delta_quantity))",
    ),
    "models_are_a_sorted_set": critical(
        "unexpected_rows_expectation",
        "Models are there, sorted, each once and none without a name.",
        unexpected_rows_query="SELECT * FROM {batch} WHERE models IS NULL OR models <> sort_array(array_distinct(models)) "
        "OR array_contains(models, '')",
    ),
    "delta_is_not_nought": warning(
        "expect_column_values_to_not_be_in_set",
        "A purchase of nothing is none.",
        column="delta_quantity",
        value_set=[0],
    ),
    "delta_is_plausible": warning(
        "expect_column_values_to_be_between",
        "Nobody buys or returns more than a hundred thousand pieces at once.",
        column="delta_quantity",
        min_value=-100_000,
        max_value=100_000,
    ),
    "no_more_is_returned_than_bought": warning(
        "expect_column_values_to_be_between",
        "Nineteen totals of twenty are not below zero; more mean returns of what was bought before the data begins.",
        column="cumulative_quantity",
        min_value=0,
        mostly=0.95,
    ),
    "mean_delta_is_usual": info(
        "expect_column_mean_to_be_between",
        "A purchase is of up to a thousand pieces on average.",
        column="delta_quantity",
        min_value=0,
        max_value=1000,
    ),
}

_OF_LIVES: Suite = {
    "each_is_added_to_what_there_was": critical(
        "unexpected_rows_expectation",
        "A purchase is added to what another has come to, or is the first of a total.",
        unexpected_rows_query="SELECT * FROM (SELECT *, collect_set(cumulative_quantity) OVER (PARTITION BY item) AS totals FROM {batch}) "
        "WHERE cumulative_quantity <> delta_quantity AND NOT array_contains(totals, cumulative_quantity - delta_quantity)",
    ),
}

EXPIRING: Suite = {**{name: one for name, one in EXPECTATIONS.items() if name != "totals_add_up"}, **_OF_LIVES}
"""The suite of a job with `expire_after`, whose items have totals one after the other."""
