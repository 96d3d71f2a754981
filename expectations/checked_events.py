"""Expectations on the table `<job>_checked` of a pattern job, which counts the events that the job has checked."""

from keyfold.suite import Suite, critical


def expectations_for(key: tuple[str, ...]) -> Suite:
    """Return the suite for a table with these key columns."""
    return {
        "one_row_a_key_and_hour": critical.unique(
            [*key, "hour_start"], "Each hour of a key has one row; with two rows its events count twice."
        ),
        "hours_are_whole": critical.never(
            "hour_start IS NULL OR CAST(hour_start AS BIGINT) % 3600000000 <> 0",
            "Every row names its hour, which begins on the hour.",
        ),
        "has_events": critical.between("events", "Every row counts at least one event.", min_value=1),
    }


EXPECTATIONS: Suite = expectations_for(("key",))
"""An example; each such table has its own module."""
