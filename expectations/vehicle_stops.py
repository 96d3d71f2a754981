"""What holds for `vehicle_stops`, by check name.

`critical` holds back whatever is built on the table; `warning` and `info` are shown and hold nothing back.
"""

from keyfold.suite import Suite

EXPECTATIONS: Suite = {
    "vehicle_id_is_there": {
        "type": "expect_column_values_to_not_be_null",
        "kwargs": {"column": "vehicle_id"},
        "severity": "critical",
        "description": "Every stop names its vehicle.",
    },
    "ends_after_it_starts": {
        "type": "expect_column_pair_values_a_to_be_greater_than_b",
        "kwargs": {"column_A": "end_time", "column_B": "start_time", "or_equal": True},
        "severity": "critical",
        "description": "No stop ends before it starts.",
    },
    "has_points": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "n_points", "min_value": 1},
        "severity": "critical",
        "description": "Every stop stands for one point at least.",
    },
    "reason_is_known": {
        "type": "expect_column_values_to_be_in_set",
        "kwargs": {"column": "reason", "value_set": ["MOVED_ON", "FELL_SILENT"]},
        "severity": "critical",
        "description": "Stops end for a known reason.",
    },
    "stops_do_not_overlap": {
        "type": "unexpected_rows_expectation",
        "kwargs": {
            "unexpected_rows_query": (
                "SELECT * FROM (SELECT *, lag(end_time) OVER (PARTITION BY vehicle_id ORDER BY start_time, "
                "end_time) AS end_before FROM {batch}) WHERE start_time < end_before"
            )
        },
        "severity": "critical",
        "description": "A vehicle is in one stop at a time.",
    },
    "latitude_is_on_earth": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "latitude", "min_value": -90, "max_value": 90},
        "severity": "critical",
        "description": "Stops are between the poles.",
    },
    "longitude_is_on_earth": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "longitude", "min_value": -180, "max_value": 180},
        "severity": "critical",
        "description": "Stops are between -180 and 180 degrees east.",
    },
    "no_stop_takes_a_week": {
        "type": "unexpected_rows_expectation",
        "kwargs": {"unexpected_rows_query": "SELECT * FROM {batch} WHERE end_time > start_time + INTERVAL 7 DAYS"},
        "severity": "info",
        "description": "A vehicle that reports for a week from one place is out of use, or its receiver is stuck.",
    },
}
