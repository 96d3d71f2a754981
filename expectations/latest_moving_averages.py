"""What holds for `latest_moving_averages` of the default columns, by check name.

`critical` holds back whatever is built on the table; `warning` and `info` are shown and hold nothing back.
"""

from expectations import moving_averages
from keyfold.suite import Suite

EXPECTATIONS: Suite = {
    "one_row_a_station": {
        "type": "expect_column_values_to_be_unique",
        "kwargs": {"column": "station_id"},
        "severity": "critical",
        "description": "A station has one latest row.",
    },
    **{
        name: moving_averages.EXPECTATIONS[name]
        for name in (
            "station_id_is_there",
            "ends_after_it_starts",
            "reason_is_known",
            "pressure_is_plausible",
            "temp_is_plausible",
        )
    },
    "no_station_lags_behind": {
        "type": "unexpected_rows_expectation",
        "kwargs": {
            "unexpected_rows_query": "SELECT * FROM {batch} WHERE end_time < (SELECT max(end_time) FROM {batch}) - INTERVAL 1 DAY"
        },
        "severity": "info",
        "description": "The latest window of every station ends within a day of the newest; else it has fallen silent.",
    },
}
