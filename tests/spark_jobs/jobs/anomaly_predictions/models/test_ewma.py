"""What the model `ewma` says, against its definition in plain Python."""

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest

from spark_jobs.jobs.anomaly_predictions.models import find_model
from tests.spark_jobs.jobs.anomaly_predictions import anomaly_oracle

MONDAY = datetime(2026, 1, 5, tzinfo=UTC)


def frame(times, values):
    rows = {"key": ["a"] * len(values), "event_time": times, "value": values}
    return pl.DataFrame(rows, schema_overrides={"value": pl.Float64, "event_time": pl.Datetime("us", "UTC")})


def every(minutes, values):
    return frame([MONDAY + timedelta(minutes=minutes * number) for number in range(len(values))], values)


def predicted(name, events):
    model = find_model(name)
    return model.predict_then_learn(model.initial(pl.Series(["a"])), events)[0].to_dicts()


@pytest.fixture(scope="module")
def values():
    random = np.random.default_rng(1)
    return (random.normal(20, 3, 700) + 50 * (random.random(700) < 0.02)).tolist()


def test_ewma_is_the_recursion_in_plain_python(values):
    oracle = anomaly_oracle.Ewma()
    for value, row in zip(values, predicted("ewma", every(5, values)), strict=True):
        expected, score = oracle.predict(value)
        assert row["expected"] == (None if expected is None else pytest.approx(expected, rel=1e-12))
        assert row["score"] == pytest.approx(score, rel=1e-12)
        oracle.learn(value)


def test_ewma_is_the_weighted_mean_over_all_values_so_far(values):
    rows = predicted("ewma", every(5, values))
    for place in (2, 3, 50, 699):
        weights = 0.95 ** np.arange(place)[::-1]
        assert rows[place]["expected"] == pytest.approx(np.average(values[:place], weights=weights))
