"""What holds for `ride_meter_jumps`, by check name.

`critical` holds back whatever is built on the table; `warning` and `info` are shown and hold nothing back.
"""

from keyfold.suite import Suite

EXPECTATIONS: Suite = {
    "ride_id_is_there": {
        "type": "expect_column_values_to_not_be_null",
        "kwargs": {"column": "ride_id"},
        "severity": "critical",
        "description": "Every jump names its ride.",
    },
    "pattern_is_known": {
        "type": "expect_column_values_to_be_in_set",
        "kwargs": {"column": "pattern", "value_set": ["jump"]},
        "severity": "critical",
        "description": "The job looks for one pattern.",
    },
    "a_point_begins_one_jump": {
        "type": "expect_compound_columns_to_be_unique",
        "kwargs": {"column_list": ["ride_id", "first_point_idx"]},
        "severity": "critical",
        "description": "A reading is followed by one reading.",
    },
    "the_meter_rises": {
        "type": "expect_column_pair_values_a_to_be_greater_than_b",
        "kwargs": {"column_A": "last_meter_reading", "column_B": "first_meter_reading"},
        "severity": "critical",
        "description": "A jump goes up.",
    },
    "the_second_is_not_before_the_first": {
        "type": "expect_column_pair_values_a_to_be_greater_than_b",
        "kwargs": {"column_A": "last_time", "column_B": "first_time", "or_equal": True},
        "severity": "critical",
        "description": "Readings are told in order of time.",
    },
    "points_follow_each_other": {
        "type": "expect_column_pair_values_a_to_be_greater_than_b",
        "kwargs": {"column_A": "last_point_idx", "column_B": "first_point_idx"},
        "severity": "warning",
        "description": "Points are numbered in order of time; else a clock was set, or points are numbered wrong.",
    },
    "few_jumps_a_ride": {
        "type": "unexpected_rows_expectation",
        "kwargs": {
            "unexpected_rows_query": "SELECT ride_id, count(*) AS jumps FROM {batch} GROUP BY ride_id HAVING count(*) > 5"
        },
        "severity": "info",
        "description": "A meter that jumps more than five times is broken, or `jump` is too small.",
    },
}
