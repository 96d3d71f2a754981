"""Anomaly predictions, without Spark: silence, thresholds, versions; their rows are those of `test_any_history.py`."""

import math
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from hypothesis import strategies as st

from keyfold.keyed.job.building import build_job
from keyfold.keyed.rows.codec import polars_schema
from keyfold.testing import play
from spark_jobs.jobs.anomaly_predictions.job import ANOMALY_PREDICTIONS, AnomalyPredictionParameters
from spark_jobs.jobs.anomaly_predictions.models import MODELS
from spark_jobs.streams import METRICS
from tests.on_a_grid import assert_nothing_is_due, moments

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LONG_PAST_ALL = NOON + timedelta(days=400)
WAYS = ("every_event", "every_interval", "complete_window")


def anomaly_job(**parameters):
    return build_job(ANOMALY_PREDICTIONS, {"model": "ewma", "min_events": 0, **parameters})


def reading(key, minutes, value):
    return {"key": key, "timestamp": NOON + timedelta(minutes=minutes), "value": float(value)}


def frame(events):
    return pl.DataFrame(events, schema=polars_schema(METRICS.schema), orient="row")


def steady(key, length, minutes=5):
    """Values around 10 in a pattern of five, so that 100 is far off."""
    return [reading(key, minutes * step, 10 + step * 7 % 5) for step in range(length)]


def play_readings(job, batches, end: datetime | None = LONG_PAST_ALL, cuts=()):
    return play(job, [frame(batch) for batch in batches], end, cuts=cuts)


def latest(harness):
    return harness.written["latest_predictions"].sort("key")


def assert_rows_agree(rows, expected):
    for row, wanted in zip(rows, expected, strict=True):
        assert {**row, "expected": 0, "score": 0} == {**wanted, "expected": 0, "score": 0}
        assert (row["expected"] is None) == (wanted["expected"] is None)
        assert math.isclose(row["expected"] or 0, wanted["expected"] or 0, rel_tol=1e-9, abs_tol=1e-9)
        assert math.isclose(row["score"], wanted["score"], abs_tol=1e-9)


@pytest.mark.parametrize(("minutes", "retired"), [(29.999, 0), (30, 1)])
def test_a_model_retires_when_the_watermark_has_reached_the_end_of_its_silence(minutes, retired):
    job = anomaly_job(forget_after="30m")
    harness = play_readings(job, [[reading("a", 0, 1)]], end=NOON + timedelta(minutes=minutes))
    assert harness.written["retired_models"].height == retired


def test_a_model_goes_on_while_an_event_that_came_just_in_time_waits_for_its_window():
    job = anomaly_job(learn="complete_window", window="1h", forget_after="30m")
    harness = play_readings(job, [[reading("a", 50, 1), reading("a", 80, 1)]], end=NOON + timedelta(minutes=80))
    assert harness.written["latest_predictions"].height == 1
    assert harness.written["retired_models"].is_empty()
    assert_nothing_is_due(harness)
    harness.batch(advance_to=NOON + timedelta(hours=2))
    assert harness.written["retired_models"]["events_learned"].to_list() == [2]


def test_the_threshold_is_the_models_own_unless_another_is_given():
    events = [*steady("a", 100), reading("a", 500, 19)]
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


NEAR, FAR = moments(300, 30), moments(9000, 180)
MOMENTS = st.sampled_from([NEAR, FAR, NEAR | FAR])
"""Strategies of the minutes of all events: near one another, far apart, and both."""
