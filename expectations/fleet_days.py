"""What holds for `fleet_days`, by check name.

`critical` holds back whatever is built on the table; `warning` and `info` are shown and hold nothing back.
"""

from keyfold.suite import Suite

EXPECTATIONS: Suite = {
    "vehicle_id_is_there": {
        "type": "expect_column_values_to_not_be_null",
        "kwargs": {"column": "vehicle_id"},
        "severity": "critical",
        "description": "Every day is of a vehicle.",
    },
    "one_row_a_vehicle_and_day": {
        "type": "expect_compound_columns_to_be_unique",
        "kwargs": {"column_list": ["vehicle_id", "day"]},
        "severity": "critical",
        "description": "A vehicle has a day once; twice its kilometres count twice.",
    },
    "kilometres_are_not_negative": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "kilometres", "min_value": 0},
        "severity": "critical",
        "description": "No vehicle goes less than nowhere.",
    },
    "fuel_is_not_negative": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "fuel_used", "min_value": 0},
        "severity": "critical",
        "description": "What is filled in is no use of fuel.",
    },
    "no_day_is_longer_than_a_day": {
        "type": "unexpected_rows_expectation",
        "kwargs": {
            "unexpected_rows_query": (
                "SELECT * FROM {batch} WHERE moving_seconds + idle_seconds + stopped_seconds > 25 * 3600 + 0.001 "
                "OR least(moving_seconds, idle_seconds, stopped_seconds) < 0"
            )
        },
        "severity": "critical",
        "description": "A vehicle moves, idles or stands for a day at most: 25 hours, where clocks are set back.",
    },
    "points_are_of_their_day": {
        "type": "unexpected_rows_expectation",
        "kwargs": {
            "unexpected_rows_query": (
                "SELECT * FROM {batch} WHERE latest < day_start OR latest >= day_start + INTERVAL 25 HOURS "
                "OR (latest IS NULL) <> (n_points = 0)"
            )
        },
        "severity": "critical",
        "description": "The last point of a day is one of that day.",
    },
    "speed_is_plausible": {
        "type": "unexpected_rows_expectation",
        "kwargs": {
            "unexpected_rows_query": "SELECT * FROM {batch} WHERE kilometres / nullif(moving_seconds, 0) * 3600 > 250"
        },
        "severity": "warning",
        "description": "No vehicle averages more than 250 km/h while it moves; a receiver that jumps does.",
    },
    "mean_distance_is_usual": {
        "type": "expect_column_mean_to_be_between",
        "kwargs": {"column": "kilometres", "max_value": 1500},
        "severity": "info",
        "description": "A fleet's vehicles go 1,500 km a day at most, on average.",
    },
}
