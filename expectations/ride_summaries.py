"""What holds for `ride_summaries`, by check name.

`critical` holds back whatever is built on the table; `warning` and `info` are shown and hold nothing back.
"""

from keyfold.suite import Suite

STATUSES = ["pickup", "enroute", "dropoff"]
REASONS = ["DROPOFF_SEEN", "GARBAGE_COLLECTION"]
EXPECTATIONS: Suite = {
    "ride_id_is_there": {
        "type": "expect_column_values_to_not_be_null",
        "kwargs": {"column": "ride_id"},
        "severity": "critical",
        "description": "Every summary names its ride.",
    },
    "one_summary_a_ride": {
        "type": "expect_column_values_to_be_unique",
        "kwargs": {"column": "ride_id"},
        "severity": "critical",
        "description": "A ride has one summary; with two its fare counts twice. (An id used again after `closed_for` has two.)",
    },
    "ends_after_it_starts": {
        "type": "expect_column_pair_values_a_to_be_greater_than_b",
        "kwargs": {"column_A": "end_time", "column_B": "start_time", "or_equal": True},
        "severity": "critical",
        "description": "No ride ends before it starts.",
    },
    "duration_is_not_negative": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "ride_duration_in_secs", "min_value": 0},
        "severity": "critical",
        "description": "No ride takes less than no time.",
    },
    "has_points": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "n_points", "min_value": 1},
        "severity": "critical",
        "description": "Every summary stands for one point at least.",
    },
    "distance_is_not_negative": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "distance_in_metres", "min_value": 0},
        "severity": "critical",
        "description": "No ride goes less than nowhere.",
    },
    "start_status_is_known": {
        "type": "expect_column_values_to_be_in_set",
        "kwargs": {"column": "start_status", "value_set": STATUSES},
        "severity": "critical",
        "description": "Rides start in a known status.",
    },
    "end_status_is_known": {
        "type": "expect_column_values_to_be_in_set",
        "kwargs": {"column": "end_status", "value_set": STATUSES},
        "severity": "critical",
        "description": "Rides end in a known status.",
    },
    "reason_is_known": {
        "type": "expect_column_values_to_be_in_set",
        "kwargs": {"column": "reason", "value_set": REASONS},
        "severity": "critical",
        "description": "Rides close for a known reason.",
    },
    "dropoff_seen_means_dropoff": {
        "type": "unexpected_rows_expectation",
        "kwargs": {
            "unexpected_rows_query": "SELECT * FROM {batch} WHERE (reason = 'DROPOFF_SEEN') <> (end_status = 'dropoff')"
        },
        "severity": "critical",
        "description": "A ride closed for its dropoff ends with it, and no other ride does.",
    },
    "speed_is_plausible": {
        "type": "unexpected_rows_expectation",
        "kwargs": {
            "unexpected_rows_query": "SELECT * FROM {batch} WHERE distance_in_metres > 70 * greatest(ride_duration_in_secs, 1)"
        },
        "severity": "warning",
        "description": "No ride is faster than 70 m/s (250 km/h) from start to end: no taxi is, a receiver that jumps is.",
    },
    "fare_is_not_negative": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "fare", "min_value": 0},
        "severity": "warning",
        "description": "Meters run forward.",
    },
    "most_rides_start_with_a_pickup": {
        "type": "expect_column_values_to_be_in_set",
        "kwargs": {"column": "start_status", "value_set": ["pickup"], "mostly": 0.95},
        "severity": "warning",
        "description": "Nineteen rides of twenty start with their pickup; fewer means that points are missing.",
    },
    "mean_duration_is_usual": {
        "type": "expect_column_mean_to_be_between",
        "kwargs": {"column": "ride_duration_in_secs", "min_value": 60, "max_value": 7200},
        "severity": "info",
        "description": "Rides take a minute to two hours on average.",
    },
}

IN_PROCESSING_TIME: Suite = {name: one for name, one in EXPECTATIONS.items() if name != "one_summary_a_ride"}
"""The suite of a job with `timeout_in=processing_time`, where a ride that fell silent and comes back has a second summary."""
