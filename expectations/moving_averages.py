"""What holds for `moving_averages` of the default columns, by check name."""

from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "station_id_is_there": critical(
        "expect_column_values_to_not_be_null", "Every row names its station.", column="station_id"
    ),
    "ends_after_it_starts": critical(
        "expect_column_pair_values_a_to_be_greater_than_b",
        "No window ends before it starts.",
        column_A="end_time",
        column_B="start_time",
        or_equal=True,
    ),
    "one_row_a_reading": critical(
        "expect_compound_columns_to_be_unique",
        "A station has one window that ends at a reading; the stream has each reading once.",
        column_list=["station_id", "end_time"],
    ),
    "has_readings": critical(
        "expect_column_values_to_be_between",
        "Every window holds one reading at least.",
        column="n_readings",
        min_value=1,
    ),
    "reason_is_known": critical(
        "expect_column_values_to_be_in_set",
        "Rows are given for a known reason.",
        column="reason",
        value_set=["WINDOW_FULL", "WINDOW_FILLING", "TIMEOUT"],
    ),
    "full_windows_are_of_one_size": critical(
        "unexpected_rows_expectation",
        "What is called full holds as many readings as any.",
        unexpected_rows_query="SELECT * FROM {batch} WHERE reason = 'WINDOW_FULL' AND n_readings < (SELECT max(n_readings) FROM {batch})",
    ),
    "pressure_is_plausible": warning(
        "expect_column_values_to_be_between",
        "Averages of pressures (hPa) lie where pressures do.",
        column="pressure_avg",
        min_value=800,
        max_value=1100,
    ),
    "temp_is_plausible": warning(
        "expect_column_values_to_be_between",
        "Averages of temperatures (°F) lie where temperatures do.",
        column="temp_avg",
        min_value=-150,
        max_value=160,
    ),
    "most_windows_are_full": info(
        "expect_column_values_to_be_in_set",
        "Nine windows of ten are full; fewer means that stations come and go.",
        column="reason",
        value_set=["WINDOW_FULL"],
        mostly=0.9,
    ),
}
