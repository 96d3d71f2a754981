"""The suites of anomaly predictions: each fault beside good rows fails the check that is about it alone."""

from datetime import UTC, datetime, timedelta
from typing import Any

from expectations import anomaly_predictions, latest_predictions, retired_models
from spark_jobs.jobs.anomaly_predictions.tables import ANOMALY_PREDICTION, LABELS, LATEST_PREDICTION, RETIRED_MODEL
from tests.expectations.failed_checks import rows_found

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SUITES = {
    "anomaly_predictions": (anomaly_predictions.EXPECTATIONS, ANOMALY_PREDICTION),
    "latest_predictions": (latest_predictions.EXPECTATIONS, LATEST_PREDICTION),
    "retired_models": (retired_models.EXPECTATIONS, RETIRED_MODEL),
}


def prediction(number: int, **changes: Any) -> dict[str, Any]:
    good = {
        "key": "cpu",
        "event_time": NOON + timedelta(minutes=5 * number),
        "value": 11.0,
        "expected": 10.0,
        "score": 0.01,
        "label": "normal",
        "previous_label": "anomalous",
        "events_learned": 100 + number,
    }
    return {**good, **changes}


def last_of(key: str, **changes: Any) -> dict[str, Any]:
    good = {
        "key": key,
        "event_time": NOON,
        "value": 11.0,
        "expected": 10.0,
        "low": 7.0,
        "high": 13.0,
        "score": 0.01,
        "label": "normal",
        "events_learned": 100,
    }
    return {**good, **changes}


def retired(key: str, **changes: Any) -> dict[str, Any]:
    good = {"key": key, "events_learned": 50, "last_event_time": NOON, "retired_at": NOON + timedelta(days=30)}
    return {**good, **changes}


ALARM = {"value": 90.0, "score": 0.99, "label": "anomalous", "previous_label": "normal"}
GOOD = {
    "anomaly_predictions": [
        prediction(0, expected=None, score=0.0, previous_label=None, events_learned=0),
        *(prediction(number, **(ALARM if number % 2 else {})) for number in range(1, 20)),
    ],
    "latest_predictions": [
        last_of("new", expected=None, low=None, high=None, score=0.0, events_learned=1),
        *(last_of(f"key-{number}") for number in range(20)),
    ],
    "retired_models": [retired(f"key-{number}") for number in range(20)],
}


def found(table, *more):
    expectations, schema = SUITES[table]
    return rows_found([*GOOD[table], *more], schema, expectations)


def test_each_faulty_prediction_is_found_by_the_check_that_is_about_it():
    faults = [
        {"key": None},
        {"score": 1.5},
        {"label": "odd"},
        {"previous_label": "odd"},
        {**ALARM, "expected": None},
        {**ALARM, "events_learned": 0},
        {"events_learned": -1},
        {"event_time": NOON + timedelta(minutes=10)},
    ]
    faulty = [prediction(50 + number, **fault) for number, fault in enumerate(faults)]
    assert found("anomaly_predictions", *faulty) == {
        "key_is_there": 1,
        "score_is_from_0_to_1": 1,
        "label_is_known": 1,
        "previous_label_is_known": 1,
        "anomalous_against_what_was_expected": 2,
        "events_learned_is_not_negative": 1,
        "one_prediction_a_value": 2,
    }


def test_alarms_without_end_are_told():
    alarms = [prediction(number, **ALARM) for number in range(50, 80)]
    assert found("anomaly_predictions", *alarms).keys() == {"alarms_end", "scores_are_usual"}


def test_each_faulty_last_prediction_is_found_by_the_check_that_is_about_it():
    faults = [
        {"key": None},
        {"key": "key-3"},
        {"score": -0.1},
        {"label": "odd"},
        {"expected": 6.0},
        {"low": 9.0, "high": 8.0},
    ]
    faulty = [last_of(f"other-{number}") | fault for number, fault in enumerate(faults)]
    assert found("latest_predictions", *faulty) == {
        "key_is_there": 1,
        "one_row_a_key": 2,
        "score_is_from_0_to_1": 1,
        "label_is_known": 1,
        "band_holds_what_is_expected": 2,
    }


def test_many_anomalous_series_at_once_and_models_that_know_little_are_told():
    alarms = [last_of(f"alarm-{number}", score=0.99, label="anomalous") for number in range(10)]
    assert found("latest_predictions", *alarms).keys() == {"most_series_are_normal"}
    young = [last_of(f"young-{number}", events_learned=5) for number in range(40)]
    assert found("latest_predictions", *young).keys() == {"models_know_enough"}


def test_each_faulty_retired_model_is_found_by_the_check_that_is_about_it():
    faults = [{"key": None}, {"events_learned": 0}, {"retired_at": NOON}, {"key": "key-3"}]
    faulty = [retired(f"other-{number}") | fault for number, fault in enumerate(faults)]
    assert found("retired_models", *faulty) == {
        "key_is_there": 1,
        "has_learned": 1,
        "retires_after_its_last_event": 1,
        "a_model_retires_once": 2,
    }


def test_models_that_retire_young_or_again_and_again_are_told():
    young = [retired(f"young-{number}", events_learned=5) for number in range(40)]
    assert found("retired_models", *young).keys() == {"models_were_worth_it"}
    again = [retired(f"key-{number}", last_event_time=NOON + timedelta(days=9)) for number in range(10)]
    assert found("retired_models", *again).keys() == {"series_do_not_come_and_go"}


def test_the_suite_knows_the_labels_of_the_job():
    assert list(LABELS) == anomaly_predictions.LABELS
