"""What holds for `ride_summaries`, by check name.

`critical` holds back whatever is built on the table; `warning` and `info` are shown and hold nothing back.
"""

from great_expectations.expectations import (
    Expectation,
    ExpectColumnMeanToBeBetween,
    ExpectColumnPairValuesAToBeGreaterThanB,
    ExpectColumnValuesToBeBetween,
    ExpectColumnValuesToBeInSet,
    ExpectColumnValuesToBeUnique,
    ExpectColumnValuesToNotBeNull,
    UnexpectedRowsExpectation,
)
from great_expectations.expectations.metadata_types import FailureSeverity

STATUSES = ["pickup", "enroute", "dropoff"]
REASONS = ["DROPOFF_SEEN", "GARBAGE_COLLECTION"]
EXPECTATIONS: dict[str, Expectation] = {
    "ride_id_is_there": ExpectColumnValuesToNotBeNull(
        column="ride_id", severity=FailureSeverity.CRITICAL, description="Every summary names its ride."
    ),
    "one_summary_a_ride": ExpectColumnValuesToBeUnique(
        column="ride_id",
        severity=FailureSeverity.CRITICAL,
        description="A ride has one summary; with two its fare counts twice. (An id used again after `closed_for` has two.)",
    ),
    "ends_after_it_starts": ExpectColumnPairValuesAToBeGreaterThanB(
        column_A="end_time",
        column_B="start_time",
        or_equal=True,
        severity=FailureSeverity.CRITICAL,
        description="No ride ends before it starts.",
    ),
    "duration_is_not_negative": ExpectColumnValuesToBeBetween(
        column="ride_duration_in_secs",
        min_value=0,
        severity=FailureSeverity.CRITICAL,
        description="No ride takes less than no time.",
    ),
    "has_points": ExpectColumnValuesToBeBetween(
        column="n_points",
        min_value=1,
        severity=FailureSeverity.CRITICAL,
        description="Every summary stands for one point at least.",
    ),
    "distance_is_not_negative": ExpectColumnValuesToBeBetween(
        column="distance_in_metres",
        min_value=0,
        severity=FailureSeverity.CRITICAL,
        description="No ride goes less than nowhere.",
    ),
    "start_status_is_known": ExpectColumnValuesToBeInSet(
        column="start_status",
        value_set=STATUSES,
        severity=FailureSeverity.CRITICAL,
        description="Rides start in a known status.",
    ),
    "end_status_is_known": ExpectColumnValuesToBeInSet(
        column="end_status",
        value_set=STATUSES,
        severity=FailureSeverity.CRITICAL,
        description="Rides end in a known status.",
    ),
    "reason_is_known": ExpectColumnValuesToBeInSet(
        column="reason",
        value_set=REASONS,
        severity=FailureSeverity.CRITICAL,
        description="Rides close for a known reason.",
    ),
    "dropoff_seen_means_dropoff": UnexpectedRowsExpectation(
        unexpected_rows_query=("SELECT * FROM {batch} WHERE (reason = 'DROPOFF_SEEN') <> (end_status = 'dropoff')"),
        severity=FailureSeverity.CRITICAL,
        description="A ride closed for its dropoff ends with it, and no other ride does.",
    ),
    "speed_is_plausible": UnexpectedRowsExpectation(
        unexpected_rows_query=(
            "SELECT * FROM {batch} WHERE distance_in_metres > 70 * greatest(ride_duration_in_secs, 1)"
        ),
        severity=FailureSeverity.WARNING,
        description="No ride is faster than 70 m/s (250 km/h) from start to end: no taxi is, a receiver that jumps is.",
    ),
    "fare_is_not_negative": ExpectColumnValuesToBeBetween(
        column="fare", min_value=0, severity=FailureSeverity.WARNING, description="Meters run forward."
    ),
    "most_rides_start_with_a_pickup": ExpectColumnValuesToBeInSet(
        column="start_status",
        value_set=["pickup"],
        mostly=0.95,
        severity=FailureSeverity.WARNING,
        description="Nineteen rides of twenty start with their pickup; fewer means that points are missing.",
    ),
    "mean_duration_is_usual": ExpectColumnMeanToBeBetween(
        column="ride_duration_in_secs",
        min_value=60,
        max_value=7200,
        severity=FailureSeverity.INFO,
        description="Rides take a minute to two hours on average.",
    ),
}
