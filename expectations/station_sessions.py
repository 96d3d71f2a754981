"""What holds for `station_sessions`, by check name.

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
        description="No session ends before it starts.",
    ),
    "has_readings": ExpectColumnValuesToBeBetween(
        column="n_readings",
        min_value=1,
        severity=FailureSeverity.CRITICAL,
        description="Every session stands for one reading at least.",
    ),
    "reason_is_known": ExpectColumnValuesToBeInSet(
        column="reason",
        value_set=["TIMEOUT"],
        severity=FailureSeverity.CRITICAL,
        description="Sessions end for a known reason.",
    ),
    "sessions_do_not_overlap": UnexpectedRowsExpectation(
        unexpected_rows_query=(
            "SELECT * FROM (SELECT *, lag(end_time) OVER (PARTITION BY station_id ORDER BY start_time, "
            "end_time) AS end_before FROM {batch}) WHERE start_time < end_before"
        ),
        severity=FailureSeverity.CRITICAL,
        description="A station is in one session at a time.",
    ),
    "a_lone_reading_takes_no_time": UnexpectedRowsExpectation(
        unexpected_rows_query="SELECT * FROM {batch} WHERE n_readings = 1 AND end_time > start_time",
        severity=FailureSeverity.WARNING,
        description="Only a session of more than one reading ends later than it starts.",
    ),
    "most_sessions_fill_a_window": ExpectColumnValuesToBeBetween(
        column="n_readings",
        min_value=10,
        mostly=0.75,
        severity=FailureSeverity.INFO,
        description="Three sessions of four have the ten readings of a default window; fewer means short outages.",
    ),
}
