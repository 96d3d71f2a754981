"""What holds for `moving_averages` of the default columns, by check name.

`critical` holds back whatever is built on the table; `warning` and `info` are shown and hold nothing back.
"""

from keyfold.suite import Suite

EXPECTATIONS: Suite = {
    "station_id_is_there": {
        "type": "expect_column_values_to_not_be_null",
        "kwargs": {"column": "station_id"},
        "severity": "critical",
        "description": "Every row names its station.",
    },
    "ends_after_it_starts": {
        "type": "expect_column_pair_values_a_to_be_greater_than_b",
        "kwargs": {"column_A": "end_time", "column_B": "start_time", "or_equal": True},
        "severity": "critical",
        "description": "No window ends before it starts.",
    },
    "one_row_a_reading": {
        "type": "expect_compound_columns_to_be_unique",
        "kwargs": {"column_list": ["station_id", "end_time"]},
        "severity": "critical",
        "description": "A station has one window that ends at a reading; the stream has each reading once.",
    },
    "has_readings": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "n_readings", "min_value": 1},
        "severity": "critical",
        "description": "Every window holds one reading at least.",
    },
    "reason_is_known": {
        "type": "expect_column_values_to_be_in_set",
        "kwargs": {"column": "reason", "value_set": ["WINDOW_FULL", "WINDOW_FILLING", "TIMEOUT"]},
        "severity": "critical",
        "description": "Rows are given for a known reason.",
    },
    "full_windows_are_of_one_size": {
        "type": "unexpected_rows_expectation",
        "kwargs": {
            "unexpected_rows_query": "SELECT * FROM {batch} WHERE reason = 'WINDOW_FULL' AND n_readings < (SELECT max(n_readings) FROM {batch})"
        },
        "severity": "critical",
        "description": "What is called full holds as many readings as any.",
    },
    "pressure_is_plausible": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "pressure_avg", "min_value": 800, "max_value": 1100},
        "severity": "warning",
        "description": "Averages of pressures (hPa) lie where pressures do.",
    },
    "temp_is_plausible": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "temp_avg", "min_value": -150, "max_value": 160},
        "severity": "warning",
        "description": "Averages of temperatures (°F) lie where temperatures do.",
    },
    "most_windows_are_full": {
        "type": "expect_column_values_to_be_in_set",
        "kwargs": {"column": "reason", "value_set": ["WINDOW_FULL"], "mostly": 0.9},
        "severity": "info",
        "description": "Nine windows of ten are full; fewer means that stations come and go.",
    },
}
