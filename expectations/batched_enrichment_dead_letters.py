"""What holds for `batched_enrichment_dead_letters`, by check name.

`critical` says that the letters themselves are wrong; `warning` and `info` say what they tell of the service.
"""

from keyfold.suite import Suite

SHA_256 = "^[0-9a-f]{64}$"
WRONG_SETTINGS = [400, 401, 403, 404, 405, 413]

EXPECTATIONS: Suite = {
    "idempotency_key_is_there": {
        "type": "expect_column_values_to_not_be_null",
        "kwargs": {"column": "idempotency_key"},
        "severity": "critical",
        "description": "Every dead letter says in which batch it was.",
    },
    "idempotency_key_is_a_hash": {
        "type": "expect_column_values_to_match_regex",
        "kwargs": {"column": "idempotency_key", "regex": SHA_256},
        "severity": "critical",
        "description": "Keys are SHA-256 in hexadecimal, by which the service's own log can be searched.",
    },
    "was_tried": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "attempts", "min_value": 1, "max_value": 20},
        "severity": "critical",
        "description": "No event is given up untried, and none is tried more than 20 times.",
    },
    "answer_is_there": {
        "type": "expect_column_values_to_not_be_null",
        "kwargs": {"column": "answer"},
        "severity": "critical",
        "description": "Every dead letter says why it is one.",
    },
    "failed_at_is_there": {
        "type": "expect_column_values_to_not_be_null",
        "kwargs": {"column": "failed_at"},
        "severity": "critical",
        "description": "Every dead letter says when it was given up.",
    },
    "status_is_one_of_http": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "status", "min_value": 100, "max_value": 599},
        "severity": "critical",
        "description": "A status, where there was an answer, is one of HTTP's.",
    },
    "service_understands_us": {
        "type": "expect_column_values_to_not_be_in_set",
        "kwargs": {"column": "status", "value_set": WRONG_SETTINGS},
        "severity": "warning",
        "description": "No event failed for a wrong token, URL or size of batch: a setting, and not the event, is at fault.",
    },
    "service_answers": {
        "type": "expect_column_values_to_not_be_null",
        "kwargs": {"column": "status", "mostly": 0.5},
        "severity": "warning",
        "description": "At least half of the failures were answers; else the service was down or far too slow.",
    },
    "nothing_failed_for_good": {
        "type": "expect_table_row_count_to_be_between",
        "kwargs": {"max_value": 0},
        "severity": "info",
        "description": "No event was given up.",
    },
}
