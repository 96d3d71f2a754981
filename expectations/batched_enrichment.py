"""What holds for `batched_enrichment`, whatever stream it enriches, by check name.

`critical` holds back whatever is built on the table; `warning` and `info` are shown and hold nothing back.
"""

from keyfold.suite import Suite

SHA_256 = "^[0-9a-f]{64}$"
JSON = r'(?s)^(\{.*\}|\[.*\]|".*"|-?[0-9].*|true|false|null)$'
EMPTY = ["{}", "[]", '""', "null"]

EXPECTATIONS: Suite = {
    "enrichment_is_there": {
        "type": "expect_column_values_to_not_be_null",
        "kwargs": {"column": "enrichment"},
        "severity": "critical",
        "description": "Every event has an answer; one without is a dead letter.",
    },
    "enrichment_is_json": {
        "type": "expect_column_values_to_match_regex",
        "kwargs": {"column": "enrichment", "regex": JSON},
        "severity": "critical",
        "description": "Answers are JSON, so that those who read them can take them apart.",
    },
    "idempotency_key_is_there": {
        "type": "expect_column_values_to_not_be_null",
        "kwargs": {"column": "idempotency_key"},
        "severity": "critical",
        "description": "Every event says in which batch it was.",
    },
    "idempotency_key_is_a_hash": {
        "type": "expect_column_values_to_match_regex",
        "kwargs": {"column": "idempotency_key", "regex": SHA_256},
        "severity": "critical",
        "description": "Keys are SHA-256 in hexadecimal, the same again for the same events.",
    },
    "no_batch_is_too_large": {
        "type": "unexpected_rows_expectation",
        "kwargs": {
            "unexpected_rows_query": "SELECT idempotency_key, count(*) AS events FROM {batch} GROUP BY idempotency_key HAVING count(*) > 10000"
        },
        "severity": "critical",
        "description": "No key is of more than 10,000 events, the most that a call takes: batches have run together.",
    },
    "no_event_is_enriched_twice": {
        "type": "unexpected_rows_expectation",
        "kwargs": {
            "unexpected_rows_query": "SELECT * EXCEPT (idempotency_key, enrichment), count(*) AS times FROM {batch} GROUP BY ALL HAVING count(*) > 1"
        },
        "severity": "warning",
        "description": "No event is there twice. (Of a stream without event ids, two events may well be alike.)",
    },
    "few_answers_are_empty": {
        "type": "expect_column_values_to_not_be_in_set",
        "kwargs": {"column": "enrichment", "value_set": EMPTY, "mostly": 0.95},
        "severity": "warning",
        "description": "Of twenty answers nineteen say something; else the service knows nothing of these events.",
    },
    "batches_are_worth_their_calls": {
        "type": "unexpected_rows_expectation",
        "kwargs": {
            "unexpected_rows_query": (
                "SELECT * FROM (SELECT count(*) AS events, count(DISTINCT idempotency_key) AS batches FROM {batch}) "
                "WHERE events < 10 * batches"
            )
        },
        "severity": "info",
        "description": (
            "A batch has ten events on average at least; fewer, and max_wait or stale_after is too short, or "
            "there are too many shards for so quiet a stream."
        ),
    },
}
