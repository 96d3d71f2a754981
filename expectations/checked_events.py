"""What holds for the account that a job of patterns keeps of the events it has looked at, by check name."""

from keyfold.suite import Suite, critical


def expectations_for(key: tuple[str, ...]) -> Suite:
    """The suite for an account of these key columns."""
    return {
        "one_row_a_key_and_hour": critical.unique(
            [*key, "hour_start"], "An hour of a key is told once, when it is over; twice its events would count twice."
        ),
        "hours_are_whole": critical.never(
            "hour_start IS NULL OR unix_micros(hour_start) % 3600000000 <> 0",
            "Every row names its hour, which begins on the hour.",
        ),
        "has_events": critical.between("events", "A row stands for one event at least.", min_value=1),
    }


EXPECTATIONS: Suite = expectations_for(("key",))
"""As an example; the accounts that there are have modules of their own."""
