"""What holds for `anomaly_predictions`, by check name.

`critical` holds back whatever is built on the table; `warning` and `info` are shown and hold nothing back.
"""

from great_expectations.expectations import (
    Expectation,
    ExpectColumnMeanToBeBetween,
    ExpectColumnValuesToBeBetween,
    ExpectColumnValuesToBeInSet,
    ExpectColumnValuesToNotBeNull,
    ExpectCompoundColumnsToBeUnique,
    UnexpectedRowsExpectation,
)
from great_expectations.expectations.metadata_types import FailureSeverity

LABELS = ["normal", "anomalous"]

EXPECTATIONS: dict[str, Expectation] = {
    "key_is_there": ExpectColumnValuesToNotBeNull(
        column="key",
        severity=FailureSeverity.CRITICAL,
        description="Every prediction names its series.",
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
        value_set=LABELS,
        severity=FailureSeverity.CRITICAL,
        description="A prediction says normal or anomalous.",
    ),
    "previous_label_is_known": ExpectColumnValuesToBeInSet(
        column="previous_label",
        value_set=LABELS,
        severity=FailureSeverity.CRITICAL,
        description="The prediction emitted before, where there is one, said normal or anomalous.",
    ),
    "anomalous_against_what_was_expected": UnexpectedRowsExpectation(
        unexpected_rows_query="SELECT * FROM {batch} WHERE label = 'anomalous' AND (expected IS NULL OR events_learned < 1)",
        severity=FailureSeverity.CRITICAL,
        description="Nothing is called anomalous by a model that has learned nothing.",
    ),
    "events_learned_is_not_negative": ExpectColumnValuesToBeBetween(
        column="events_learned",
        min_value=0,
        severity=FailureSeverity.CRITICAL,
        description="No model has learned less than nothing.",
    ),
    "one_prediction_a_value": ExpectCompoundColumnsToBeUnique(
        column_list=["key", "event_time", "value"],
        severity=FailureSeverity.WARNING,
        description="A value is predicted once; the same twice means that it came again after `duplicate_window`.",
    ),
    "alarms_end": ExpectColumnValuesToBeInSet(
        column="label",
        value_set=["normal"],
        mostly=0.4,
        severity=FailureSeverity.WARNING,
        description="Of what is emitted two in five are normal: where alarms follow each other, a threshold is too low.",
    ),
    "scores_are_usual": ExpectColumnMeanToBeBetween(
        column="score",
        max_value=0.7,
        severity=FailureSeverity.INFO,
        description="Emitted scores are 0.7 on average at most.",
    ),
}
