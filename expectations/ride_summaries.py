"""What holds for `ride_summaries`, by check name."""

from keyfold.suite import Suite, critical, info, warning

STATUSES = ["pickup", "enroute", "dropoff"]
REASONS = ["DROPOFF_SEEN", "GARBAGE_COLLECTION"]
EXPECTATIONS: Suite = {
    "ride_id_is_there": critical(
        "expect_column_values_to_not_be_null", "Every summary names its ride.", column="ride_id"
    ),
    "one_summary_a_ride": critical(
        "expect_column_values_to_be_unique",
        "A ride has one summary; with two its fare counts twice. (An id used again after `closed_for` has two.)",
        column="ride_id",
    ),
    "ends_after_it_starts": critical(
        "expect_column_pair_values_a_to_be_greater_than_b",
        "No ride ends before it starts.",
        column_A="end_time",
        column_B="start_time",
        or_equal=True,
    ),
    "duration_is_not_negative": critical(
        "expect_column_values_to_be_between",
        "No ride takes less than no time.",
        column="ride_duration_in_secs",
        min_value=0,
    ),
    "has_points": critical(
        "expect_column_values_to_be_between",
        "Every summary stands for one point at least.",
        column="n_points",
        min_value=1,
    ),
    "distance_is_not_negative": critical(
        "expect_column_values_to_be_between",
        "No ride goes less than nowhere.",
        column="distance_in_metres",
        min_value=0,
    ),
    "start_status_is_known": critical(
        "expect_column_values_to_be_in_set", "Rides start in a known status.", column="start_status", value_set=STATUSES
    ),
    "end_status_is_known": critical(
        "expect_column_values_to_be_in_set", "Rides end in a known status.", column="end_status", value_set=STATUSES
    ),
    "reason_is_known": critical(
        "expect_column_values_to_be_in_set", "Rides close for a known reason.", column="reason", value_set=REASONS
    ),
    "dropoff_seen_means_dropoff": critical(
        "unexpected_rows_expectation",
        "A ride closed for its dropoff ends with it, and no other ride does.",
        unexpected_rows_query="SELECT * FROM {batch} WHERE (reason = 'DROPOFF_SEEN') <> (end_status = 'dropoff')",
    ),
    "speed_is_plausible": warning(
        "unexpected_rows_expectation",
        "No ride is faster than 70 m/s (250 km/h) from start to end: no taxi is, a receiver that jumps is.",
        unexpected_rows_query="SELECT * FROM {batch} WHERE distance_in_metres > 70 * greatest(ride_duration_in_secs, 1)",
    ),
    "fare_is_not_negative": warning(
        "expect_column_values_to_be_between", "Meters run forward.", column="fare", min_value=0
    ),
    "most_rides_start_with_a_pickup": warning(
        "expect_column_values_to_be_in_set",
        "Nineteen rides of twenty start with their pickup; fewer means that points are missing.",
        column="start_status",
        value_set=["pickup"],
        mostly=0.95,
    ),
    "mean_duration_is_usual": info(
        "expect_column_mean_to_be_between",
        "Rides take a minute to two hours on average.",
        column="ride_duration_in_secs",
        min_value=60,
        max_value=7200,
    ),
}

IN_PROCESSING_TIME: Suite = {name: one for name, one in EXPECTATIONS.items() if name != "one_summary_a_ride"}
"""The suite of a job with `timeout_in=processing_time`, where a ride that fell silent and comes back has a second summary."""
