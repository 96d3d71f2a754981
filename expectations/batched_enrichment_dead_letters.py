"""What holds for `batched_enrichment_dead_letters`, by check name.

`critical` says that the letters themselves are wrong; `warning` and `info` say what they tell of the service.
"""

from keyfold.suite import Suite, critical, info, warning

SHA_256 = "^[0-9a-f]{64}$"
WRONG_SETTINGS = [400, 401, 403, 404, 405, 413]

EXPECTATIONS: Suite = {
    "idempotency_key_is_there": critical.not_null("idempotency_key", "Every dead letter says in which batch it was."),
    "idempotency_key_is_a_hash": critical(
        "expect_column_values_to_match_regex",
        "Keys are SHA-256 in hexadecimal, by which the service's own log can be searched.",
        column="idempotency_key",
        regex=SHA_256,
    ),
    "was_tried": critical.between(
        "attempts", "No event is given up untried, and none is tried more than 20 times.", min_value=1, max_value=20
    ),
    "answer_is_there": critical.not_null("answer", "Every dead letter says why it is one."),
    "failed_at_is_there": critical.not_null("failed_at", "Every dead letter says when it was given up."),
    "status_is_one_of_http": critical.between(
        "status", "A status, where there was an answer, is one of HTTP's.", min_value=100, max_value=599
    ),
    "service_understands_us": warning(
        "expect_column_values_to_not_be_in_set",
        "No event failed for a wrong token, URL or size of batch: a setting, and not the event, is at fault.",
        column="status",
        value_set=WRONG_SETTINGS,
    ),
    "service_answers": warning.not_null(
        "status", "At least half of the failures were answers; else the service was down or far too slow.", mostly=0.5
    ),
    "nothing_failed_for_good": info("expect_table_row_count_to_be_between", "No event was given up.", max_value=0),
}
