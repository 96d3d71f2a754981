"""What holds for `ride_weather`, by check name."""

from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "ride_id_is_there": critical("expect_column_values_to_not_be_null", "Every row names its ride.", column="ride_id"),
    "one_row_a_ride": critical(
        "expect_compound_columns_to_be_unique",
        "A summary of a ride is joined once; with two rows its fare counts twice.",
        column_list=["ride_id", "start_time"],
    ),
    "reading_is_not_of_later": critical(
        "unexpected_rows_expectation",
        "A ride has the weather of before its start, and not of after it.",
        unexpected_rows_query="SELECT * FROM {batch} WHERE time > start_time",
    ),
    "only_rides_near_a_station_have_a_reading": critical(
        "unexpected_rows_expectation",
        "A ride that began near no station has no weather.",
        unexpected_rows_query="SELECT * FROM {batch} WHERE station_id = '' AND time IS NOT NULL",
    ),
    "temp_is_plausible": warning(
        "expect_column_values_to_be_between",
        "Temperatures (°F) lie where those of the stream do.",
        column="temp",
        min_value=-150,
        max_value=160,
    ),
    "most_rides_have_weather": info(
        "expect_column_values_to_not_be_null",
        "Nine rides of ten have a reading; fewer means that a station is silent, or that rides begin far from all.",
        column="time",
        mostly=0.9,
    ),
}
