"""What holds for `latest_predictions`, by check name.

`critical` holds back whatever is built on the table; `warning` and `info` are shown and hold nothing back.
"""

from great_expectations.expectations import (
    Expectation,
    ExpectColumnValuesToBeBetween,
    ExpectColumnValuesToBeInSet,
    ExpectColumnValuesToBeUnique,
    ExpectColumnValuesToNotBeNull,
    UnexpectedRowsExpectation,
)
from great_expectations.expectations.metadata_types import FailureSeverity

EXPECTATIONS: dict[str, Expectation] = {
    "key_is_there": ExpectColumnValuesToNotBeNull(
        column="key",
        severity=FailureSeverity.CRITICAL,
        description="Every prediction names its series.",
    ),
    "one_row_a_key": ExpectColumnValuesToBeUnique(
        column="key",
        severity=FailureSeverity.CRITICAL,
        description="A series has one last prediction.",
    ),
    "score_is_from_0_to_1": ExpectColumnValuesToBeBetween(
        column="score",
        min_value=0,
        max_value=1,
        severity=FailureSeverity.CRITICAL,
        description="Scores lie between 0 (as expected) and 1.",
    ),
    "label_is_known": ExpectColumnValuesToBeInSet(
        column="label",
        value_set=["normal", "anomalous"],
        severity=FailureSeverity.CRITICAL,
        description="A prediction says normal or anomalous.",
    ),
    "band_holds_what_is_expected": UnexpectedRowsExpectation(
        unexpected_rows_query=(
            "SELECT * FROM {batch} WHERE expected < low OR expected > high OR (expected IS NOT NULL AND low > high)"
        ),
        severity=FailureSeverity.CRITICAL,
        description="The band of usual values has the expected one in it.",
    ),
    "most_series_are_normal": ExpectColumnValuesToBeInSet(
        column="label",
        value_set=["normal"],
        mostly=0.9,
        severity=FailureSeverity.WARNING,
        description="Nine series of ten are normal now; with fewer look at what they have in common.",
    ),
    "models_know_enough": ExpectColumnValuesToBeBetween(
        column="events_learned",
        min_value=30,
        mostly=0.5,
        severity=FailureSeverity.INFO,
        description="Half of the models at least have learned the 30 events that the default asks for before an alarm.",
    ),
}
