"""What holds for `ride_meter_jumps`, by check name."""

from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "ride_id_is_there": critical("expect_column_values_to_not_be_null", "Every jump names its ride.", column="ride_id"),
    "pattern_is_known": critical(
        "expect_column_values_to_be_in_set", "The job looks for one pattern.", column="pattern", value_set=["jump"]
    ),
    "a_point_begins_one_jump": critical(
        "expect_compound_columns_to_be_unique",
        "A reading is followed by one reading.",
        column_list=["ride_id", "first_point_idx"],
    ),
    "the_meter_rises": critical(
        "expect_column_pair_values_a_to_be_greater_than_b",
        "A jump goes up.",
        column_A="last_meter_reading",
        column_B="first_meter_reading",
    ),
    "the_second_is_not_before_the_first": critical(
        "expect_column_pair_values_a_to_be_greater_than_b",
        "Readings are told in order of time.",
        column_A="last_time",
        column_B="first_time",
        or_equal=True,
    ),
    "points_follow_each_other": warning(
        "expect_column_pair_values_a_to_be_greater_than_b",
        "Points are numbered in order of time; else a clock was set, or points are numbered wrong.",
        column_A="last_point_idx",
        column_B="first_point_idx",
    ),
    "few_jumps_a_ride": info(
        "unexpected_rows_expectation",
        "A meter that jumps more than five times is broken, or `jump` is too small.",
        unexpected_rows_query="SELECT ride_id, count(*) AS jumps FROM {batch} GROUP BY ride_id HAVING count(*) > 5",
    ),
}
