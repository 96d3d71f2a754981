"""What holds for `vehicle_stops`, by check name.

`critical` holds back whatever is built on the table; `warning` and `info` are shown and hold nothing back.
"""

from great_expectations.expectations import (
    Expectation,
    ExpectColumnPairValuesAToBeGreaterThanB,
    ExpectColumnValuesToBeBetween,
    ExpectColumnValuesToBeInSet,
    ExpectColumnValuesToNotBeNull,
    UnexpectedRowsExpectation,
)
from great_expectations.expectations.metadata_types import FailureSeverity

EXPECTATIONS: dict[str, Expectation] = {
    "vehicle_id_is_there": ExpectColumnValuesToNotBeNull(
        column="vehicle_id",
        severity=FailureSeverity.CRITICAL,
        description="Every stop names its vehicle.",
    ),
    "ends_after_it_starts": ExpectColumnPairValuesAToBeGreaterThanB(
        column_A="end_time",
        column_B="start_time",
        or_equal=True,
        severity=FailureSeverity.CRITICAL,
        description="No stop ends before it starts.",
    ),
    "has_points": ExpectColumnValuesToBeBetween(
        column="n_points",
        min_value=1,
        severity=FailureSeverity.CRITICAL,
        description="Every stop stands for one point at least.",
    ),
    "reason_is_known": ExpectColumnValuesToBeInSet(
        column="reason",
        value_set=["MOVED_ON", "FELL_SILENT"],
        severity=FailureSeverity.CRITICAL,
        description="Stops end for a known reason.",
    ),
    "stops_do_not_overlap": UnexpectedRowsExpectation(
        unexpected_rows_query=(
            "SELECT * FROM (SELECT *, lag(end_time) OVER (PARTITION BY vehicle_id ORDER BY start_time, "
            "end_time) AS end_before FROM {batch}) WHERE start_time < end_before"
        ),
        severity=FailureSeverity.CRITICAL,
        description="A vehicle is in one stop at a time.",
    ),
    "latitude_is_on_earth": ExpectColumnValuesToBeBetween(
        column="latitude",
        min_value=-90,
        max_value=90,
        severity=FailureSeverity.CRITICAL,
        description="Stops are between the poles.",
    ),
    "longitude_is_on_earth": ExpectColumnValuesToBeBetween(
        column="longitude",
        min_value=-180,
        max_value=180,
        severity=FailureSeverity.CRITICAL,
        description="Stops are between -180 and 180 degrees east.",
    ),
    "no_stop_takes_a_week": UnexpectedRowsExpectation(
        unexpected_rows_query="SELECT * FROM {batch} WHERE end_time > start_time + INTERVAL 7 DAYS",
        severity=FailureSeverity.INFO,
        description="A vehicle that reports for a week from one place is out of use, or its receiver is stuck.",
    ),
}
