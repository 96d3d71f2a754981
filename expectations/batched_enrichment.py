"""What holds for `batched_enrichment`, whatever stream it enriches, by check name."""

from keyfold.suite import Suite, critical, info, warning

SHA_256 = "^[0-9a-f]{64}$"
JSON = r'(?s)^(\{.*\}|\[.*\]|".*"|-?[0-9].*|true|false|null)$'
EMPTY = ["{}", "[]", '""', "null"]

EXPECTATIONS: Suite = {
    "enrichment_is_there": critical(
        "expect_column_values_to_not_be_null",
        "Every event has an answer; one without is a dead letter.",
        column="enrichment",
    ),
    "enrichment_is_json": critical(
        "expect_column_values_to_match_regex",
        "Answers are JSON, so that those who read them can take them apart.",
        column="enrichment",
        regex=JSON,
    ),
    "idempotency_key_is_there": critical(
        "expect_column_values_to_not_be_null", "Every event says in which batch it was.", column="idempotency_key"
    ),
    "idempotency_key_is_a_hash": critical(
        "expect_column_values_to_match_regex",
        "Keys are SHA-256 in hexadecimal, the same again for the same events.",
        column="idempotency_key",
        regex=SHA_256,
    ),
    "no_batch_is_too_large": critical(
        "unexpected_rows_expectation",
        "No key is of more than 10,000 events, the most that a call takes: batches have run together.",
        unexpected_rows_query="SELECT idempotency_key, count(*) AS events FROM {batch} GROUP BY idempotency_key HAVING count(*) > 10000",
    ),
    "no_event_is_enriched_twice": warning(
        "unexpected_rows_expectation",
        "No event is there twice. (Of a stream without event ids, two events may well be alike.)",
        unexpected_rows_query="SELECT * EXCEPT (idempotency_key, enrichment), count(*) AS times FROM {batch} GROUP BY ALL HAVING count(*) > 1",
    ),
    "few_answers_are_empty": warning(
        "expect_column_values_to_not_be_in_set",
        "Of twenty answers nineteen say something; else the service knows nothing of these events.",
        column="enrichment",
        value_set=EMPTY,
        mostly=0.95,
    ),
    "batches_are_worth_their_calls": info(
        "unexpected_rows_expectation",
        "A batch has ten events on average at least; fewer, and max_wait or stale_after is too short, or "
        "there are too many shards for so quiet a stream.",
        unexpected_rows_query="SELECT * FROM (SELECT count(*) AS events, count(DISTINCT idempotency_key) AS batches FROM {batch}) "
        "WHERE events < 10 * batches",
    ),
}
