"""What holds for `moving_averages` of the default columns, by check name.

`critical` holds back whatever is built on the table; `warning` and `info` are shown and hold nothing back.
"""

from great_expectations.expectations import (
    Expectation,
    ExpectColumnPairValuesAToBeGreaterThanB,
    ExpectColumnValuesToBeBetween,
    ExpectColumnValuesToBeInSet,
    ExpectColumnValuesToNotBeNull,
    ExpectCompoundColumnsToBeUnique,
    UnexpectedRowsExpectation,
)
from great_expectations.expectations.metadata_types import FailureSeverity

EXPECTATIONS: dict[str, Expectation] = {
    "station_id_is_there": ExpectColumnValuesToNotBeNull(
        column="station_id",
        severity=FailureSeverity.CRITICAL,
        description="Every row names its station.",
    ),
    "ends_after_it_starts": ExpectColumnPairValuesAToBeGreaterThanB(
        column_A="end_time",
        column_B="start_time",
        or_equal=True,
        severity=FailureSeverity.CRITICAL,
        description="No window ends before it starts.",
    ),
    "one_row_a_reading": ExpectCompoundColumnsToBeUnique(
        column_list=["station_id", "end_time"],
        severity=FailureSeverity.CRITICAL,
        description="A station has one window that ends at a reading; the stream has each reading once.",
    ),
    "has_readings": ExpectColumnValuesToBeBetween(
        column="n_readings",
        min_value=1,
        severity=FailureSeverity.CRITICAL,
        description="Every window holds one reading at least.",
    ),
    "reason_is_known": ExpectColumnValuesToBeInSet(
        column="reason",
        value_set=["WINDOW_FULL", "WINDOW_FILLING", "TIMEOUT"],
        severity=FailureSeverity.CRITICAL,
        description="Rows are given for a known reason.",
    ),
    "full_windows_are_of_one_size": UnexpectedRowsExpectation(
        unexpected_rows_query=(
            "SELECT * FROM {batch} WHERE reason = 'WINDOW_FULL' AND n_readings < (SELECT max(n_readings) FROM {batch})"
        ),
        severity=FailureSeverity.CRITICAL,
        description="What is called full holds as many readings as any.",
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
    "most_windows_are_full": ExpectColumnValuesToBeInSet(
        column="reason",
        value_set=["WINDOW_FULL"],
        mostly=0.9,
        severity=FailureSeverity.INFO,
        description="Nine windows of ten are full; fewer means that stations come and go.",
    ),
}
