"""What holds for `batched_enrichment`, whatever stream it enriches, by check name."""

from keyfold.suite import Suite, critical, info, warning

SHA_256 = "^[0-9a-f]{64}$"
JSON = r'(?s)^(\{.*\}|\[.*\]|".*"|-?[0-9].*|true|false|null)$'
EMPTY = ["{}", "[]", '""', "null"]

EXPECTATIONS: Suite = {
    "enrichment_is_there": critical.not_null("enrichment", "Every event has an answer; one without is a dead letter."),
    "enrichment_is_json": critical(
        "expect_column_values_to_match_regex",
        "Answers are JSON, so that those who read them can take them apart.",
        column="enrichment",
        regex=JSON,
    ),
    "idempotency_key_is_there": critical.not_null("idempotency_key", "Every event says in which batch it was."),
    "idempotency_key_is_a_hash": critical(
        "expect_column_values_to_match_regex",
        "Keys are SHA-256 in hexadecimal, the same again for the same events.",
        column="idempotency_key",
        regex=SHA_256,
    ),
    "no_batch_is_too_large": critical.no_rows(
        "SELECT idempotency_key, count(*) AS events FROM {batch} GROUP BY idempotency_key HAVING count(*) > 10000",
        "No key is of more than 10,000 events, the most that a call takes: batches have run together.",
    ),
    "no_event_is_enriched_twice": warning.no_rows(
        "SELECT * EXCEPT (idempotency_key, enrichment), count(*) AS times FROM {batch} GROUP BY ALL HAVING count(*) > 1",
        "No event is there twice. (Of a stream without event ids, two events may well be alike.)",
    ),
    "few_answers_are_empty": warning(
        "expect_column_values_to_not_be_in_set",
        "Of twenty answers nineteen say something; else the service knows nothing of these events.",
        column="enrichment",
        value_set=EMPTY,
        mostly=0.95,
    ),
    "batches_are_worth_their_calls": info.no_rows(
        "SELECT * FROM (SELECT count(*) AS events, count(DISTINCT idempotency_key) AS batches FROM {batch}) "
        "WHERE events < 10 * batches",
        "A batch has ten events on average at least; fewer, and max_wait or stale_after is too short, or "
        "there are too many shards for so quiet a stream.",
    ),
}
