"""What holds for `vehicle_trips`, by check name.

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
    "trip_id_is_unique": ExpectColumnValuesToBeUnique(
        column="trip_id",
        severity=FailureSeverity.CRITICAL,
        description="A trip is there once; twice its distance and fuel count twice.",
    ),
    "vehicle_id_is_there": ExpectColumnValuesToNotBeNull(
        column="vehicle_id",
        severity=FailureSeverity.CRITICAL,
        description="Every trip names its vehicle.",
    ),
    "ends_after_it_starts": ExpectColumnPairValuesAToBeGreaterThanB(
        column_A="end_time",
        column_B="start_time",
        or_equal=True,
        severity=FailureSeverity.CRITICAL,
        description="No trip ends before it starts.",
    ),
    "has_points": ExpectColumnValuesToBeBetween(
        column="n_points",
        min_value=1,
        severity=FailureSeverity.CRITICAL,
        description="Every trip stands for one point at least.",
    ),
    "distance_is_not_negative": ExpectColumnValuesToBeBetween(
        column="distance_in_metres",
        min_value=0,
        severity=FailureSeverity.CRITICAL,
        description="No trip goes less than nowhere.",
    ),
    "reason_is_known": ExpectColumnValuesToBeInSet(
        column="reason",
        value_set=["STOPPED", "FELL_SILENT"],
        severity=FailureSeverity.CRITICAL,
        description="Trips end for a known reason.",
    ),
    "times_add_up": UnexpectedRowsExpectation(
        unexpected_rows_query=(
            "SELECT * FROM {batch} WHERE abs(moving_seconds + idle_seconds - (unix_micros(end_time) - "
            "unix_micros(start_time)) / 1e6) > 0.001"
        ),
        severity=FailureSeverity.CRITICAL,
        description="A vehicle moves or idles at every moment of a trip.",
    ),
    "trips_do_not_overlap": UnexpectedRowsExpectation(
        unexpected_rows_query=(
            "SELECT * FROM (SELECT *, lag(end_time) OVER (PARTITION BY vehicle_id ORDER BY start_time, "
            "end_time) AS end_before FROM {batch}) WHERE start_time < end_before"
        ),
        severity=FailureSeverity.CRITICAL,
        description="A vehicle is in one trip at a time.",
    ),
    "speed_is_plausible": ExpectColumnValuesToBeBetween(
        column="average_speed",
        max_value=250,
        severity=FailureSeverity.WARNING,
        description="No trip averages more than 250 km/h: no vehicle does, a receiver that jumps does.",
    ),
    "fuel_is_not_negative": ExpectColumnValuesToBeBetween(
        column="fuel_used",
        min_value=0,
        severity=FailureSeverity.WARNING,
        description="Trips use fuel; filling up is no use.",
    ),
    "most_trips_end_with_a_stop": ExpectColumnValuesToBeInSet(
        column="reason",
        value_set=["STOPPED"],
        mostly=0.9,
        severity=FailureSeverity.INFO,
        description="Nine trips of ten end where the vehicle stops; fewer means that points are missing.",
    ),
}
