"""What holds for `retired_models`, by check name.

`critical` holds back whatever is built on the table; `warning` and `info` are shown and hold nothing back.
"""

from great_expectations.expectations import (
    Expectation,
    ExpectColumnPairValuesAToBeGreaterThanB,
    ExpectColumnValuesToBeBetween,
    ExpectColumnValuesToBeUnique,
    ExpectColumnValuesToNotBeNull,
    ExpectCompoundColumnsToBeUnique,
)
from great_expectations.expectations.metadata_types import FailureSeverity

EXPECTATIONS: dict[str, Expectation] = {
    "key_is_there": ExpectColumnValuesToNotBeNull(
        column="key",
        severity=FailureSeverity.CRITICAL,
        description="Every row names the series whose model retired.",
    ),
    "has_learned": ExpectColumnValuesToBeBetween(
        column="events_learned",
        min_value=1,
        severity=FailureSeverity.CRITICAL,
        description="Every row stands for one event at least.",
    ),
    "retires_after_its_last_event": ExpectColumnPairValuesAToBeGreaterThanB(
        column_A="retired_at",
        column_B="last_event_time",
        severity=FailureSeverity.CRITICAL,
        description="A model retires after a silence.",
    ),
    "a_model_retires_once": ExpectCompoundColumnsToBeUnique(
        column_list=["key", "last_event_time"],
        severity=FailureSeverity.CRITICAL,
        description="A model has one row; with two its events count twice.",
    ),
    "models_were_worth_it": ExpectColumnValuesToBeBetween(
        column="events_learned",
        min_value=30,
        mostly=0.5,
        severity=FailureSeverity.WARNING,
        description="Half of them at least had learned the 30 events that the default asks for before an alarm.",
    ),
    "series_do_not_come_and_go": ExpectColumnValuesToBeUnique(
        column="key",
        mostly=0.9,
        severity=FailureSeverity.INFO,
        description="Nine in ten retire for good; where series come back, `forget_after` is too short.",
    ),
}
