"""Expectations on `batched_enrichment_dead_letters`, by check name.

A `critical` one fails if the rows are wrong; `warning` and `info` fail if the service or its settings have a problem.
"""

from keyfold.suite import Suite, critical, info, warning

SHA_256 = "^[0-9a-f]{64}$"
WRONG_SETTINGS = [400, 401, 403, 404, 405, 413]

EXPECTATIONS: Suite = {
    "idempotency_key_is_there": critical.not_null("idempotency_key", "Every dead letter names its batch."),
    "idempotency_key_is_a_hash": critical.matches(
        "idempotency_key", SHA_256, "Keys are SHA-256 in hexadecimal; the service's log can be searched by them."
    ),
    "was_tried": critical.between(
        "attempts", "Every event was tried between 1 and 20 times.", min_value=1, max_value=20
    ),
    "answer_is_there": critical.not_null("answer", "Every dead letter has a reason."),
    "failed_at_is_there": critical.not_null("failed_at", "Every dead letter has the time when it was given up."),
    "status_is_one_of_http": critical.between(
        "status", "The status of an answer is an HTTP status.", min_value=100, max_value=599
    ),
    "service_understands_us": warning(
        "expect_column_values_to_not_be_in_set",
        "No event failed for a wrong token, URL or batch size; such a failure means that a setting is wrong.",
        column="status",
        value_set=WRONG_SETTINGS,
    ),
    "service_answers": warning.not_null(
        "status",
        "At least half of the failed calls were answered; fewer means that the service was down or too slow.",
        mostly=0.5,
    ),
    "nothing_failed_for_good": info("expect_table_row_count_to_be_between", "No event was given up.", max_value=0),
}
