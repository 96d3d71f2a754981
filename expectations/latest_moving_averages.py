"""What holds for `latest_moving_averages` of the default columns, by check name.

`critical` holds back whatever is built on the table; `warning` and `info` are shown and hold nothing back.
"""

from great_expectations.expectations import (
    Expectation,
    ExpectColumnPairValuesAToBeGreaterThanB,
    ExpectColumnValuesToBeBetween,
    ExpectColumnValuesToBeInSet,
    ExpectColumnValuesToBeUnique,
    ExpectColumnValuesToNotBeNull,
    UnexpectedRowsExpectation,
)
from great_expectations.expectations.metadata_types import FailureSeverity

EXPECTATIONS: dict[str, Expectation] = {
    "station_id_is_there": ExpectColumnValuesToNotBeNull(
        column="station_id",
        severity=FailureSeverity.CRITICAL,
        description="Every row names its station.",
    ),
    "one_row_a_station": ExpectColumnValuesToBeUnique(
        column="station_id",
        severity=FailureSeverity.CRITICAL,
        description="A station has one latest row.",
    ),
    "ends_after_it_starts": ExpectColumnPairValuesAToBeGreaterThanB(
        column_A="end_time",
        column_B="start_time",
        or_equal=True,
        severity=FailureSeverity.CRITICAL,
        description="No window ends before it starts.",
    ),
    "reason_is_known": ExpectColumnValuesToBeInSet(
        column="reason",
        value_set=["WINDOW_FULL", "WINDOW_FILLING", "TIMEOUT"],
        severity=FailureSeverity.CRITICAL,
        description="Rows are given for a known reason.",
    ),
    "pressure_is_plausible": ExpectColumnValuesToBeBetween(
        column="pressure_avg",
        min_value=800,
        max_value=1100,
        severity=FailureSeverity.WARNING,
        description="Averages of pressures (hPa) lie where pressures do.",
    ),
    "temp_is_plausible": ExpectColumnValuesToBeBetween(
        column="temp_avg",
        min_value=-150,
        max_value=160,
        severity=FailureSeverity.WARNING,
        description="Averages of temperatures (°F) lie where temperatures do.",
    ),
    "no_station_lags_behind": UnexpectedRowsExpectation(
        unexpected_rows_query=(
            "SELECT * FROM {batch} WHERE end_time < (SELECT max(end_time) FROM {batch}) - INTERVAL 1 DAY"
        ),
        severity=FailureSeverity.INFO,
        description="The latest window of every station ends within a day of the newest; else it has fallen silent.",
    ),
}
