"""What holds for `station_sessions`, by check name."""

from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "station_id_is_there": critical(
        "expect_column_values_to_not_be_null", "Every row names its station.", column="station_id"
    ),
    "ends_after_it_starts": critical(
        "expect_column_pair_values_a_to_be_greater_than_b",
        "No session ends before it starts.",
        column_A="end_time",
        column_B="start_time",
        or_equal=True,
    ),
    "has_readings": critical(
        "expect_column_values_to_be_between",
        "Every session stands for one reading at least.",
        column="n_readings",
        min_value=1,
    ),
    "reason_is_known": critical(
        "expect_column_values_to_be_in_set", "Sessions end for a known reason.", column="reason", value_set=["TIMEOUT"]
    ),
    "sessions_do_not_overlap": critical(
        "unexpected_rows_expectation",
        "A station is in one session at a time.",
        unexpected_rows_query="SELECT * FROM (SELECT *, lag(end_time) OVER (PARTITION BY station_id ORDER BY start_time, "
        "end_time) AS end_before FROM {batch}) WHERE start_time < end_before",
    ),
    "a_lone_reading_takes_no_time": warning(
        "unexpected_rows_expectation",
        "Only a session of more than one reading ends later than it starts.",
        unexpected_rows_query="SELECT * FROM {batch} WHERE n_readings = 1 AND end_time > start_time",
    ),
    "most_sessions_fill_a_window": info(
        "expect_column_values_to_be_between",
        "Three sessions of four have the ten readings of a default window; fewer means short outages.",
        column="n_readings",
        min_value=10,
        mostly=0.75,
    ),
}

IN_PROCESSING_TIME: Suite = {name: one for name, one in EXPECTATIONS.items() if name != "sessions_do_not_overlap"}
"""The suite of a job with `timeout_in=processing_time`, whose sessions follow each other as readings came, and not by their times."""
