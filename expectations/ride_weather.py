"""What holds for `ride_weather`, by check name."""

from keyfold.suite import Suite

EXPECTATIONS: Suite = {
    "ride_id_is_there": {
        "type": "expect_column_values_to_not_be_null",
        "kwargs": {"column": "ride_id"},
        "severity": "critical",
        "description": "Every row names its ride.",
    },
    "one_row_a_ride": {
        "type": "expect_compound_columns_to_be_unique",
        "kwargs": {"column_list": ["ride_id", "start_time"]},
        "severity": "critical",
        "description": "A summary of a ride is joined once; with two rows its fare counts twice.",
    },
    "reading_is_not_of_later": {
        "type": "unexpected_rows_expectation",
        "kwargs": {"unexpected_rows_query": "SELECT * FROM {batch} WHERE time > start_time"},
        "severity": "critical",
        "description": "A ride has the weather of before its start, and not of after it.",
    },
    "only_rides_near_a_station_have_a_reading": {
        "type": "unexpected_rows_expectation",
        "kwargs": {"unexpected_rows_query": "SELECT * FROM {batch} WHERE station_id = '' AND time IS NOT NULL"},
        "severity": "critical",
        "description": "A ride that began near no station has no weather.",
    },
    "temp_is_plausible": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "temp", "min_value": -150, "max_value": 160},
        "severity": "warning",
        "description": "Temperatures (°F) lie where those of the stream do.",
    },
    "most_rides_have_weather": {
        "type": "expect_column_values_to_not_be_null",
        "kwargs": {"column": "time", "mostly": 0.9},
        "severity": "warning",
        "description": "Nine rides of ten have a reading; fewer means that a station is silent, or that rides begin far from all.",
    },
}
