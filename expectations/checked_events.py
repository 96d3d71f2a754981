"""What holds for the account that a job of patterns keeps of the events it has looked at, by check name."""

from keyfold.suite import Suite, critical


def expectations_for(key: tuple[str, ...]) -> Suite:
    """The suite for an account of these key columns."""
    return {
        "one_row_a_key_and_hour": critical(
            "expect_compound_columns_to_be_unique",
            "An hour of a key is told once, when it is over; twice its events would count twice.",
            column_list=[*key, "hour_start"],
        ),
        "hours_are_whole": critical(
            "unexpected_rows_expectation",
            "Every row names its hour, which begins on the hour.",
            unexpected_rows_query="SELECT * FROM {batch} WHERE hour_start IS NULL OR unix_micros(hour_start) % 3600000000 <> 0",
        ),
        "has_events": critical(
            "expect_column_values_to_be_between", "A row stands for one event at least.", column="events", min_value=1
        ),
    }


EXPECTATIONS: Suite = expectations_for(("key",))
"""As an example; the accounts that there are have modules of their own."""
