"""Expectations on `batched_enrichment`, for any stream, by check name."""

from keyfold.suite import Suite, critical, info, warning

SHA_256 = "^[0-9a-f]{64}$"
JSON = r'(?s)^(\{.*\}|\[.*\]|".*"|-?[0-9].*|true|false|null)$'
EMPTY = ["{}", "[]", '""', "null"]

EXPECTATIONS: Suite = {
    "enrichment_is_there": critical.not_null("enrichment", "Every event has an answer; one without is a dead letter."),
    "enrichment_is_json": critical.matches("enrichment", JSON, "Every answer is valid JSON."),
    "idempotency_key_is_there": critical.not_null("idempotency_key", "Every event names its batch."),
    "idempotency_key_is_a_hash": critical.matches(
        "idempotency_key", SHA_256, "Keys are SHA-256 in hexadecimal; the same events give the same key."
    ),
    "no_batch_is_too_large": critical.no_rows(
        "SELECT idempotency_key, count(*) AS events FROM {batch} GROUP BY idempotency_key HAVING count(*) > 10000",
        "No key has more than 10,000 events, the limit of a call; more means that batches were merged.",
    ),
    "no_event_is_enriched_twice": warning.no_rows(
        "SELECT * EXCEPT (idempotency_key, enrichment), count(*) AS times FROM {batch} GROUP BY ALL HAVING count(*) > 1",
        "No event occurs twice. (A stream without event ids may have equal events.)",
    ),
    "few_answers_are_empty": warning(
        "expect_column_values_to_not_be_in_set",
        "At least 95 % of the answers are not empty; fewer means that the service does not know these events.",
        column="enrichment",
        value_set=EMPTY,
        mostly=0.95,
    ),
    "batches_are_worth_their_calls": info.no_rows(
        "SELECT * FROM (SELECT count(*) AS events, count(DISTINCT idempotency_key) AS batches FROM {batch}) "
        "WHERE events < 10 * batches",
        "Batches have at least ten events on average; fewer means that max_wait or stale_after is too short, or that there "
        "are too many shards.",
    ),
}
