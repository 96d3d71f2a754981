"""What holds for `purchase_totals`, by check name."""

from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "item_is_there": critical.not_null("item", "Every purchase names its item."),
    "event_time_is_there": critical.not_null("event_time", "Every purchase has its time."),
    "totals_add_up": critical.no_rows(
        "SELECT item, sum(delta_quantity) AS total FROM {batch} GROUP BY item "
        "HAVING NOT array_contains(collect_set(cumulative_quantity), sum(delta_quantity))",
        "All purchases of an item come to one of its cumulative quantities: none is lost or counted twice.",
    ),
    "models_are_a_sorted_set": critical.never(
        "models IS NULL OR models <> sort_array(array_distinct(models)) OR array_contains(models, '')",
        "Models are there, sorted, each once and none without a name.",
    ),
    "delta_is_not_nought": warning(
        "expect_column_values_to_not_be_in_set",
        "A purchase of nothing is none.",
        column="delta_quantity",
        value_set=[0],
    ),
    "delta_is_plausible": warning.between(
        "delta_quantity",
        "Nobody buys or returns more than a hundred thousand pieces at once.",
        min_value=-100_000,
        max_value=100_000,
    ),
    "no_more_is_returned_than_bought": warning.between(
        "cumulative_quantity",
        "Nineteen totals of twenty are not below zero; more mean returns of what was bought before the data begins.",
        min_value=0,
        mostly=0.95,
    ),
    "mean_delta_is_usual": info.mean_between(
        "delta_quantity", "A purchase is of up to a thousand pieces on average.", min_value=0, max_value=1000
    ),
}

_OF_LIVES: Suite = {
    "each_is_added_to_what_there_was": critical.no_rows(
        "SELECT * FROM (SELECT *, collect_set(cumulative_quantity) OVER (PARTITION BY item) AS totals FROM {batch}) "
        "WHERE cumulative_quantity <> delta_quantity AND NOT array_contains(totals, cumulative_quantity - delta_quantity)",
        "A purchase is added to what another has come to, or is the first of a total.",
    ),
}

EXPIRING: Suite = {**{name: one for name, one in EXPECTATIONS.items() if name != "totals_add_up"}, **_OF_LIVES}
"""The suite of a job with `expire_after`, whose items have totals one after the other."""
