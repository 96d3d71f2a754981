"""The suites of batched enrichment: good rows pass all, and each fault fails the check that is about it."""

from datetime import UTC, datetime
from typing import Any

from expectations import batched_enrichment, batched_enrichment_dead_letters
from spark_jobs.jobs.batched_enrichment.job import dead_letter_schema, enriched_schema
from spark_jobs.jobs.batched_enrichment.protocol import MAX_EVENTS
from spark_jobs.streams import METRICS
from tests.expectations.failed_checks import rows_found

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


def found(rows: list[dict[str, Any]], suite: Any, schema: Any) -> dict[str, Any]:
    return rows_found(rows, schema(METRICS, METRICS.event_time), suite.EXPECTATIONS)


def found_enriched(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return found(rows, batched_enrichment, enriched_schema)


def found_letters(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return found(rows, batched_enrichment_dead_letters, dead_letter_schema)


def test_good_answers_pass_the_whole_suite():
    others = [enriched(100 + place, enrichment=text) for place, text in enumerate(["3", '"a\nb"', "true", "[1]"])]
    assert found_enriched([*(enriched(number) for number in range(30)), *others]) == {}


def test_each_wrong_answer_is_found_by_the_check_that_is_about_it():
    faults = [
        {"enrichment": None},
        {"enrichment": "<html>"},
        {"idempotency_key": None},
        {"idempotency_key": "a"},
        {"value": 3.0, "enrichment": '{"n":3}', "idempotency_key": "f" * 64},
    ]
    faulty = [enriched(99 + number, **fault) for number, fault in enumerate(faults)]
    assert found_enriched([*(enriched(number) for number in range(50)), *faulty]) == {
        "enrichment_is_there": 1,
        "enrichment_is_json": 1,
        "idempotency_key_is_there": 1,
        "idempotency_key_is_a_hash": 1,
        "no_event_is_enriched_twice": 1,
    }


def test_faults_of_the_whole_table_are_told():
    rows = [enriched(number, enrichment="{}" if number % 5 else '{"n":1}') for number in range(30)]
    assert found_enriched(rows).keys() == {"few_answers_are_empty"}
    rows = [enriched(number, idempotency_key=f"{number // 2:064x}") for number in range(30)]
    assert found_enriched(rows).keys() == {"batches_are_worth_their_calls"}
    rows = [enriched(number) for number in range(MAX_EVENTS + 1)]
    assert found_enriched(rows).keys() == {"no_batch_is_too_large"}


def test_good_dead_letters_are_told_and_pass_the_rest_of_their_suite():
    unanswered = dead_letter(1, status=None, attempts=5, answer="no answer within 10 s")
    assert found_letters([dead_letter(0), unanswered]).keys() == {NOTHING_FAILED}


def test_each_wrong_dead_letter_is_found_by_the_check_that_is_about_it():
    faults = [
        {"idempotency_key": None},
        {"idempotency_key": "a"},
        {"attempts": 0},
        {"answer": None},
        {"failed_at": None},
        {"status": 7},
        {"status": 401},
    ]
    faulty = [dead_letter(99 + number, **fault) for number, fault in enumerate(faults)]
    assert found_letters([*(dead_letter(number) for number in range(3)), *faulty]) == {
        "idempotency_key_is_there": 1,
        "idempotency_key_is_a_hash": 1,
        "was_tried": 1,
        "answer_is_there": 1,
        "failed_at_is_there": 1,
        "status_is_one_of_http": 1,
        "service_understands_us": 1,
        NOTHING_FAILED: 10,
    }


def test_a_service_that_was_down_is_told():
    letters = [dead_letter(number, status=None if number else 503) for number in range(4)]
    assert found_letters(letters).keys() == {"service_answers", NOTHING_FAILED}


def test_tables_without_rows_pass_both_suites():
    assert found_enriched([]) == {}
    assert found_letters([]) == {}


def test_the_suite_knows_the_most_events_of_a_call():
    query = batched_enrichment.EXPECTATIONS["no_batch_is_too_large"]["kwargs"]["unexpected_rows_query"]
    assert query.endswith(f"> {MAX_EVENTS}")
