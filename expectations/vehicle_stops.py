"""What holds for `vehicle_stops`, by check name."""

from keyfold.suite import Suite, critical, info

EXPECTATIONS: Suite = {
    "vehicle_id_is_there": critical(
        "expect_column_values_to_not_be_null", "Every stop names its vehicle.", column="vehicle_id"
    ),
    "ends_after_it_starts": critical(
        "expect_column_pair_values_a_to_be_greater_than_b",
        "No stop ends before it starts.",
        column_A="end_time",
        column_B="start_time",
        or_equal=True,
    ),
    "has_points": critical(
        "expect_column_values_to_be_between",
        "Every stop stands for one point at least.",
        column="n_points",
        min_value=1,
    ),
    "reason_is_known": critical(
        "expect_column_values_to_be_in_set",
        "Stops end for a known reason.",
        column="reason",
        value_set=["MOVED_ON", "FELL_SILENT"],
    ),
    "stops_do_not_overlap": critical(
        "unexpected_rows_expectation",
        "A vehicle is in one stop at a time.",
        unexpected_rows_query="SELECT * FROM (SELECT *, lag(end_time) OVER (PARTITION BY vehicle_id ORDER BY start_time, "
        "end_time) AS end_before FROM {batch}) WHERE start_time < end_before",
    ),
    "latitude_is_on_earth": critical(
        "expect_column_values_to_be_between",
        "Stops are between the poles.",
        column="latitude",
        min_value=-90,
        max_value=90,
    ),
    "longitude_is_on_earth": critical(
        "expect_column_values_to_be_between",
        "Stops are between -180 and 180 degrees east.",
        column="longitude",
        min_value=-180,
        max_value=180,
    ),
    "no_stop_takes_a_week": info(
        "unexpected_rows_expectation",
        "A vehicle that reports for a week from one place is out of use, or its receiver is stuck.",
        unexpected_rows_query="SELECT * FROM {batch} WHERE end_time > start_time + INTERVAL 7 DAYS",
    ),
}
