"""What holds for the account that a job of patterns keeps of the events it has looked at, by check name."""

from keyfold.suite import Suite


def expectations_for(key: tuple[str, ...]) -> Suite:
    """The suite for an account of these key columns."""
    return {
        "one_row_a_key_and_hour": {
            "type": "expect_compound_columns_to_be_unique",
            "kwargs": {"column_list": [*key, "hour_start"]},
            "severity": "critical",
            "description": "An hour of a key is told once, when it is over; twice its events would count twice.",
        },
        "hours_are_whole": {
            "type": "unexpected_rows_expectation",
            "kwargs": {
                "unexpected_rows_query": (
                    "SELECT * FROM {batch} WHERE hour_start IS NULL OR unix_micros(hour_start) % 3600000000 <> 0"
                )
            },
            "severity": "critical",
            "description": "Every row names its hour, which begins on the hour.",
        },
        "has_events": {
            "type": "expect_column_values_to_be_between",
            "kwargs": {"column": "events", "min_value": 1},
            "severity": "critical",
            "description": "A row stands for one event at least.",
        },
    }


EXPECTATIONS: Suite = expectations_for(("key",))
"""As an example; the accounts that there are have modules of their own."""
