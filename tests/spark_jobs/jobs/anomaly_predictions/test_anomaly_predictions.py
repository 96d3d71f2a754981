"""Anomaly predictions, without Spark: silence, thresholds, versions; their rows are those of `test_any_history.py`."""

from datetime import datetime, timedelta

import pytest

from keyfold.testing import play
from spark_jobs.jobs.anomaly_predictions.job import AnomalyPredictionParameters
from spark_jobs.jobs.anomaly_predictions.models import MODELS
from tests.on_a_grid import assert_nothing_is_due
from tests.shop import NOON
from tests.spark_jobs.jobs.anomaly_predictions.metrics import anomaly_job, latest, metric, metric_frame

LONG_PAST_ALL = NOON + timedelta(days=400)


def steady(key, length, minutes=5):
    """Values around 10 in a pattern of five, so that 100 is far off."""
    return [metric(key, minutes * step, 10 + step * 7 % 5) for step in range(length)]


def play_readings(job, batches, end: datetime | None = LONG_PAST_ALL, cuts=()):
    return play(job, [metric_frame(batch) for batch in batches], end, cuts=cuts)


@pytest.mark.parametrize(("minutes", "retired"), [(29.999, 0), (30, 1)])
def test_a_model_retires_when_the_watermark_has_reached_the_end_of_its_silence(minutes, retired):
    job = anomaly_job(forget_after="30m")
    harness = play_readings(job, [[metric("a", 0, 1)]], end=NOON + timedelta(minutes=minutes))
    assert harness.written["retired_models"].height == retired


def test_a_model_goes_on_while_an_event_that_came_just_in_time_waits_for_its_window():
    job = anomaly_job(learn="complete_window", window="1h", forget_after="30m")
    harness = play_readings(job, [[metric("a", 50, 1), metric("a", 80, 1)]], end=NOON + timedelta(minutes=80))
    assert harness.written["latest_predictions"].height == 1
    assert harness.written["retired_models"].is_empty()
    assert_nothing_is_due(harness)
    harness.batch(advance_to=NOON + timedelta(hours=2))
    assert harness.written["retired_models"]["events_learned"].to_list() == [2]


def test_the_threshold_is_the_models_own_unless_another_is_given():
    events = [*steady("a", 100), metric("a", 500, 19)]
    last = latest(play_readings(anomaly_job(), [events]))
    assert 0.5 < last["score"].item() < 0.9
    assert last["label"].item() == "normal"
    assert latest(play_readings(anomaly_job(threshold=0.5), [events]))["label"].item() == "anomalous"


def test_a_generation_of_another_model_or_version_is_told_apart(monkeypatch):
    ewma = anomaly_job(model="ewma")
    assert ewma.parameters["model"] == "ewma"
    assert anomaly_job(model="rarity").parameters["model"] == "rarity"
    monkeypatch.setattr(type(MODELS["ewma"]), "version", MODELS["ewma"].version + 1)
    assert anomaly_job(model="ewma").state.version == ewma.state.version + 1


def test_the_description_of_the_parameter_says_what_each_model_is_for():
    description = AnomalyPredictionParameters.model_fields["model"].description or ""
    assert [name for name in MODELS if f"{name}: " not in description] == []
