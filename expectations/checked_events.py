"""What holds for the account that a job of patterns keeps of the events it has looked at, by check name."""

from expectations.suite import Suite

EXPECTATIONS: Suite = {
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
