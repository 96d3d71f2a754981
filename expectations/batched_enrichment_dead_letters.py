"""What holds for `batched_enrichment_dead_letters`, by check name.

`critical` says that the letters themselves are wrong; `warning` and `info` say what they tell of the service.
"""

from great_expectations.expectations import (
    Expectation,
    ExpectColumnValuesToBeBetween,
    ExpectColumnValuesToMatchRegex,
    ExpectColumnValuesToNotBeInSet,
    ExpectColumnValuesToNotBeNull,
    ExpectTableRowCountToBeBetween,
)
from great_expectations.expectations.metadata_types import FailureSeverity

SHA_256 = "^[0-9a-f]{64}$"
WRONG_SETTINGS = [400, 401, 403, 404, 405, 413]

EXPECTATIONS: dict[str, Expectation] = {
    "idempotency_key_is_there": ExpectColumnValuesToNotBeNull(
        column="idempotency_key",
        severity=FailureSeverity.CRITICAL,
        description="Every dead letter says in which batch it was.",
    ),
    "idempotency_key_is_a_hash": ExpectColumnValuesToMatchRegex(
        column="idempotency_key",
        regex=SHA_256,
        severity=FailureSeverity.CRITICAL,
        description="Keys are SHA-256 in hexadecimal, by which the service's own log can be searched.",
    ),
    "was_tried": ExpectColumnValuesToBeBetween(
        column="attempts",
        min_value=1,
        max_value=20,
        severity=FailureSeverity.CRITICAL,
        description="No event is given up untried, and none is tried more than 20 times.",
    ),
    "answer_is_there": ExpectColumnValuesToNotBeNull(
        column="answer",
        severity=FailureSeverity.CRITICAL,
        description="Every dead letter says why it is one.",
    ),
    "failed_at_is_there": ExpectColumnValuesToNotBeNull(
        column="failed_at",
        severity=FailureSeverity.CRITICAL,
        description="Every dead letter says when it was given up.",
    ),
    "status_is_one_of_http": ExpectColumnValuesToBeBetween(
        column="status",
        min_value=100,
        max_value=599,
        severity=FailureSeverity.CRITICAL,
        description="A status, where there was an answer, is one of HTTP's.",
    ),
    "service_understands_us": ExpectColumnValuesToNotBeInSet(
        column="status",
        value_set=WRONG_SETTINGS,
        severity=FailureSeverity.WARNING,
        description="No event failed for a wrong token, URL or size of batch: a setting, and not the event, is at fault.",
    ),
    "service_answers": ExpectColumnValuesToNotBeNull(
        column="status",
        mostly=0.5,
        severity=FailureSeverity.WARNING,
        description="At least half of the failures were answers; else the service was down or far too slow.",
    ),
    "nothing_failed_for_good": ExpectTableRowCountToBeBetween(
        max_value=0,
        severity=FailureSeverity.INFO,
        description="No event was given up.",
    ),
}
