"""What holds for `station_sessions`, by check name.

`critical` holds back whatever is built on the table; `warning` and `info` are shown and hold nothing back.
"""

from keyfold.suite import Suite

EXPECTATIONS: Suite = {
    "station_id_is_there": {
        "type": "expect_column_values_to_not_be_null",
        "kwargs": {"column": "station_id"},
        "severity": "critical",
        "description": "Every row names its station.",
    },
    "ends_after_it_starts": {
        "type": "expect_column_pair_values_a_to_be_greater_than_b",
        "kwargs": {"column_A": "end_time", "column_B": "start_time", "or_equal": True},
        "severity": "critical",
        "description": "No session ends before it starts.",
    },
    "has_readings": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "n_readings", "min_value": 1},
        "severity": "critical",
        "description": "Every session stands for one reading at least.",
    },
    "reason_is_known": {
        "type": "expect_column_values_to_be_in_set",
        "kwargs": {"column": "reason", "value_set": ["TIMEOUT"]},
        "severity": "critical",
        "description": "Sessions end for a known reason.",
    },
    "sessions_do_not_overlap": {
        "type": "unexpected_rows_expectation",
        "kwargs": {
            "unexpected_rows_query": (
                "SELECT * FROM (SELECT *, lag(end_time) OVER (PARTITION BY station_id ORDER BY start_time, "
                "end_time) AS end_before FROM {batch}) WHERE start_time < end_before"
            )
        },
        "severity": "critical",
        "description": "A station is in one session at a time.",
    },
    "a_lone_reading_takes_no_time": {
        "type": "unexpected_rows_expectation",
        "kwargs": {"unexpected_rows_query": "SELECT * FROM {batch} WHERE n_readings = 1 AND end_time > start_time"},
        "severity": "warning",
        "description": "Only a session of more than one reading ends later than it starts.",
    },
    "most_sessions_fill_a_window": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "n_readings", "min_value": 10, "mostly": 0.75},
        "severity": "info",
        "description": "Three sessions of four have the ten readings of a default window; fewer means short outages.",
    },
}

IN_PROCESSING_TIME: Suite = {name: one for name, one in EXPECTATIONS.items() if name != "sessions_do_not_overlap"}
"""The suite of a job with `timeout_in=processing_time`, whose sessions follow each other as readings came, and not by their times."""
