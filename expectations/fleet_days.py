"""What holds for `fleet_days`, by check name."""

from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "vehicle_id_is_there": critical(
        "expect_column_values_to_not_be_null", "Every day is of a vehicle.", column="vehicle_id"
    ),
    "one_row_a_vehicle_and_day": critical(
        "expect_compound_columns_to_be_unique",
        "A vehicle has a day once; twice its kilometres count twice.",
        column_list=["vehicle_id", "day"],
    ),
    "kilometres_are_not_negative": critical(
        "expect_column_values_to_be_between", "No vehicle goes less than nowhere.", column="kilometres", min_value=0
    ),
    "fuel_is_not_negative": critical(
        "expect_column_values_to_be_between", "What is filled in is no use of fuel.", column="fuel_used", min_value=0
    ),
    "no_day_is_longer_than_a_day": critical(
        "unexpected_rows_expectation",
        "A vehicle moves, idles or stands for a day at most: 25 hours, where clocks are set back.",
        unexpected_rows_query="SELECT * FROM {batch} WHERE moving_seconds + idle_seconds + stopped_seconds > 25 * 3600 + 0.001 "
        "OR least(moving_seconds, idle_seconds, stopped_seconds) < 0",
    ),
    "points_are_of_their_day": critical(
        "unexpected_rows_expectation",
        "The last point of a day is one of that day.",
        unexpected_rows_query="SELECT * FROM {batch} WHERE latest < day_start OR latest >= day_start + INTERVAL 25 HOURS "
        "OR (latest IS NULL) <> (n_points = 0)",
    ),
    "speed_is_plausible": warning(
        "unexpected_rows_expectation",
        "No vehicle averages more than 250 km/h while it moves; a receiver that jumps does.",
        unexpected_rows_query="SELECT * FROM {batch} WHERE kilometres / nullif(moving_seconds, 0) * 3600 > 250",
    ),
    "mean_distance_is_usual": info(
        "expect_column_mean_to_be_between",
        "A fleet's vehicles go 1,500 km a day at most, on average.",
        column="kilometres",
        max_value=1500,
    ),
}
