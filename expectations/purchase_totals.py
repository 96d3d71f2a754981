"""What holds for `purchase_totals`, by check name."""

from keyfold.suite import Suite

EXPECTATIONS: Suite = {
    "item_is_there": {
        "type": "expect_column_values_to_not_be_null",
        "kwargs": {"column": "item"},
        "severity": "critical",
        "description": "Every purchase names its item.",
    },
    "event_time_is_there": {
        "type": "expect_column_values_to_not_be_null",
        "kwargs": {"column": "event_time"},
        "severity": "critical",
        "description": "Every purchase has its time.",
    },
    "totals_add_up": {
        "type": "unexpected_rows_expectation",
        "kwargs": {
            "unexpected_rows_query": (
                "SELECT item, sum(delta_quantity) AS total FROM {batch} GROUP BY item "
                "HAVING NOT array_contains(collect_set(cumulative_quantity), sum(delta_quantity))"
            )
        },
        "severity": "critical",
        "description": "All purchases of an item come to one of its cumulative quantities: none is lost or counted twice.",
    },
    "models_are_a_sorted_set": {
        "type": "unexpected_rows_expectation",
        "kwargs": {
            "unexpected_rows_query": (
                "SELECT * FROM {batch} WHERE models IS NULL OR models <> sort_array(array_distinct(models)) "
                "OR array_contains(models, '')"
            )
        },
        "severity": "critical",
        "description": "Models are there, sorted, each once and none without a name.",
    },
    "delta_is_not_nought": {
        "type": "expect_column_values_to_not_be_in_set",
        "kwargs": {"column": "delta_quantity", "value_set": [0]},
        "severity": "warning",
        "description": "A purchase of nothing is none.",
    },
    "delta_is_plausible": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "delta_quantity", "min_value": -100_000, "max_value": 100_000},
        "severity": "warning",
        "description": "Nobody buys or returns more than a hundred thousand pieces at once.",
    },
    "no_more_is_returned_than_bought": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "cumulative_quantity", "min_value": 0, "mostly": 0.95},
        "severity": "warning",
        "description": "Nineteen totals of twenty are not below zero; more mean returns of what was bought before the data begins.",
    },
    "mean_delta_is_usual": {
        "type": "expect_column_mean_to_be_between",
        "kwargs": {"column": "delta_quantity", "min_value": 0, "max_value": 1000},
        "severity": "info",
        "description": "A purchase is of up to a thousand pieces on average.",
    },
}

_OF_LIVES: Suite = {
    "each_is_added_to_what_there_was": {
        "type": "unexpected_rows_expectation",
        "kwargs": {
            "unexpected_rows_query": (
                "SELECT * FROM (SELECT *, collect_set(cumulative_quantity) OVER (PARTITION BY item) AS totals FROM {batch}) "
                "WHERE cumulative_quantity <> delta_quantity AND NOT array_contains(totals, cumulative_quantity - delta_quantity)"
            )
        },
        "severity": "critical",
        "description": "A purchase is added to what another has come to, or is the first of a total.",
    },
}

EXPIRING: Suite = {**{name: one for name, one in EXPECTATIONS.items() if name != "totals_add_up"}, **_OF_LIVES}
"""The suite of a job with `expire_after`, whose items have totals one after the other."""
