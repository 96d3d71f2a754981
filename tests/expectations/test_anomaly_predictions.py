"""The suites of anomaly predictions: good rows pass all of each, and each fault fails the check that is about it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from expectations import anomaly_predictions, latest_predictions, retired_models
from spark_jobs.jobs.anomaly_predictions.tables import ANOMALY_PREDICTION, LABELS, LATEST_PREDICTION, RETIRED_MODEL
from tests.expectations.failed_checks import failed_checks

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


def failed(spark, table, *more):
    expectations, schema = SUITES[table]
    return failed_checks(spark, [*GOOD[table], *more], schema, expectations)


@pytest.mark.parametrize("table", SUITES)
def test_good_rows_pass_the_whole_suite(spark, table):
    assert failed(spark, table) == set()


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ({"key": None}, "key_is_there"),
        ({"score": 1.5}, "score_is_from_0_to_1"),
        ({"label": "odd"}, "label_is_known"),
        ({"previous_label": "odd"}, "previous_label_is_known"),
        ({**ALARM, "expected": None}, "anomalous_against_what_was_expected"),
        ({**ALARM, "events_learned": 0}, "anomalous_against_what_was_expected"),
        ({"events_learned": -1}, "events_learned_is_not_negative"),
        ({"event_time": NOON + timedelta(minutes=10)}, "one_prediction_a_value"),
    ],
)
def test_a_faulty_prediction_fails_the_check_that_is_about_it(spark, fault, check):
    assert failed(spark, "anomaly_predictions", prediction(50, **fault)) == {check}


def test_alarms_without_end_are_told(spark):
    alarms = [prediction(number, **ALARM) for number in range(50, 80)]
    assert failed(spark, "anomaly_predictions", *alarms) == {"alarms_end", "scores_are_usual"}


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ({"key": None}, "key_is_there"),
        ({"key": "key-3"}, "one_row_a_key"),
        ({"score": -0.1}, "score_is_from_0_to_1"),
        ({"label": "odd"}, "label_is_known"),
        ({"expected": 6.0}, "band_holds_what_is_expected"),
        ({"low": 9.0, "high": 8.0}, "band_holds_what_is_expected"),
    ],
)
def test_a_faulty_last_prediction_fails_the_check_that_is_about_it(spark, fault, check):
    assert failed(spark, "latest_predictions", {**last_of("other"), **fault}) == {check}


def test_many_anomalous_series_at_once_and_models_that_know_little_are_told(spark):
    alarms = [last_of(f"alarm-{number}", score=0.99, label="anomalous") for number in range(10)]
    assert failed(spark, "latest_predictions", *alarms) == {"most_series_are_normal"}
    young = [last_of(f"young-{number}", events_learned=5) for number in range(40)]
    assert failed(spark, "latest_predictions", *young) == {"models_know_enough"}


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ({"key": None}, "key_is_there"),
        ({"events_learned": 0}, "has_learned"),
        ({"retired_at": NOON}, "retires_after_its_last_event"),
        ({"key": "key-3"}, "a_model_retires_once"),
    ],
)
def test_a_faulty_retired_model_fails_the_check_that_is_about_it(spark, fault, check):
    assert check in failed(spark, "retired_models", {**retired("other"), **fault})


def test_models_that_retire_young_or_again_and_again_are_told(spark):
    young = [retired(f"young-{number}", events_learned=5) for number in range(40)]
    assert failed(spark, "retired_models", *young) == {"models_were_worth_it"}
    again = [retired(f"key-{number}", last_event_time=NOON + timedelta(days=9)) for number in range(10)]
    assert failed(spark, "retired_models", *again) == {"series_do_not_come_and_go"}


def test_the_suite_knows_the_labels_of_the_job():
    assert list(LABELS) == anomaly_predictions.LABELS


@pytest.mark.parametrize("table", SUITES)
def test_severities_are_mixed(table):
    assert {one["severity"] for one in SUITES[table][0].values()} == {"critical", "warning", "info"}
