"""The suites of batched enrichment: good rows pass all, and each fault fails the check that is about it."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

from expectations import batched_enrichment, batched_enrichment_dead_letters
from spark_jobs.jobs.batched_enrichment.job import dead_letter_schema, enriched_schema
from spark_jobs.jobs.batched_enrichment.protocol import MAX_EVENTS
from spark_jobs.streams import METRICS
from tests.expectations.failed_checks import failed_checks

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
EVENT = {"key": "cpu", "timestamp": NOON}
KEY = "0123456789abcdef" * 4
NOTHING_FAILED = "nothing_failed_for_good"


def enriched(number: int, **changes: Any) -> dict[str, Any]:
    good = {**EVENT, "value": float(number), "enrichment": f'{{"n":{number}}}', "idempotency_key": KEY}
    return {**good, **changes}


def dead_letter(number: int, **changes: Any) -> dict[str, Any]:
    story = {"idempotency_key": KEY, "attempts": 1, "status": 422, "answer": "rejected", "failed_at": NOON}
    return {**EVENT, "value": float(number), **story, **changes}


def failed(spark: SparkSession, rows: list[dict[str, Any]], suite: Any, schema: Any) -> set[str]:
    return failed_checks(spark, rows, schema(METRICS, METRICS.event_time), suite.EXPECTATIONS)


def failed_enriched(spark: SparkSession, rows: list[dict[str, Any]]) -> set[str]:
    return failed(spark, rows, batched_enrichment, enriched_schema)


def failed_letters(spark: SparkSession, rows: list[dict[str, Any]]) -> set[str]:
    return failed(spark, rows, batched_enrichment_dead_letters, dead_letter_schema)


def test_good_answers_pass_the_whole_suite(spark):
    others = [enriched(100 + place, enrichment=text) for place, text in enumerate(["3", '"a\nb"', "true", "[1]"])]
    assert failed_enriched(spark, [*(enriched(number) for number in range(30)), *others]) == set()


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ({"enrichment": None}, "enrichment_is_there"),
        ({"enrichment": "<html>"}, "enrichment_is_json"),
        ({"idempotency_key": None}, "idempotency_key_is_there"),
        ({"idempotency_key": "a"}, "idempotency_key_is_a_hash"),
        ({"value": 3.0, "enrichment": '{"n":3}', "idempotency_key": "f" * 64}, "no_event_is_enriched_twice"),
    ],
)
def test_a_wrong_answer_fails_the_check_that_is_about_it(spark, fault, check):
    assert failed_enriched(spark, [*(enriched(number) for number in range(30)), enriched(99, **fault)]) == {check}


def test_faults_of_the_whole_table_are_told(spark):
    rows = [enriched(number, enrichment="{}" if number % 5 else '{"n":1}') for number in range(30)]
    assert failed_enriched(spark, rows) == {"few_answers_are_empty"}
    rows = [enriched(number, idempotency_key=f"{number // 2:064x}") for number in range(30)]
    assert failed_enriched(spark, rows) == {"batches_are_worth_their_calls"}
    rows = [enriched(number) for number in range(MAX_EVENTS + 1)]
    assert failed_enriched(spark, rows) == {"no_batch_is_too_large"}


def test_good_dead_letters_are_told_and_pass_the_rest_of_their_suite(spark):
    unanswered = dead_letter(1, status=None, attempts=5, answer="no answer within 10 s")
    assert failed_letters(spark, [dead_letter(0), unanswered]) == {NOTHING_FAILED}


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ({"idempotency_key": None}, "idempotency_key_is_there"),
        ({"idempotency_key": "a"}, "idempotency_key_is_a_hash"),
        ({"attempts": 0}, "was_tried"),
        ({"answer": None}, "answer_is_there"),
        ({"failed_at": None}, "failed_at_is_there"),
        ({"status": 7}, "status_is_one_of_http"),
        ({"status": 401}, "service_understands_us"),
    ],
)
def test_a_wrong_dead_letter_fails_the_check_that_is_about_it(spark, fault, check):
    letters = [*(dead_letter(number) for number in range(3)), dead_letter(99, **fault)]
    assert failed_letters(spark, letters) == {check, NOTHING_FAILED}


def test_a_service_that_was_down_is_told(spark):
    letters = [dead_letter(number, status=None if number else 503) for number in range(4)]
    assert failed_letters(spark, letters) == {"service_answers", NOTHING_FAILED}


def test_tables_without_rows_pass_both_suites(spark):
    assert failed_enriched(spark, []) == set()
    assert failed_letters(spark, []) == set()


def test_the_suite_knows_the_most_events_of_a_call():
    query = batched_enrichment.EXPECTATIONS["no_batch_is_too_large"]["kwargs"]["unexpected_rows_query"]
    assert query.endswith(f"> {MAX_EVENTS}")


@pytest.mark.parametrize("suite", [batched_enrichment, batched_enrichment_dead_letters])
def test_severities_are_mixed(suite):
    assert {one["severity"] for one in suite.EXPECTATIONS.values()} == {"critical", "warning", "info"}
