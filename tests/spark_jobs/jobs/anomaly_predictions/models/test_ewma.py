"""What the model `ewma` says, against its definition in plain Python."""

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.jobs.anomaly_predictions.models import find_model
from spark_jobs.jobs.anomaly_predictions.models.ewma import decaying_sums, of_number, total_weights
from tests.examples import examples
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


# Decaying sums, against the recursion one by one: the same bits whichever way they are taken.


def one_by_one(runs, before, keep):
    after = []
    for run, total in zip(runs, before, strict=True):
        for number in run:
            total = number + keep * total  # noqa: PLW2901
            after.append(total)
    return after


def summed(runs, before, keep):
    counts = np.array([len(run) for run in runs], dtype=np.int64)
    inputs = np.array([number for run in runs for number in run])
    return decaying_sums(inputs, np.cumsum(counts) - counts, counts, np.array(before), keep).tolist()


runs_of_any_length = st.lists(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=60), min_size=1, max_size=6)


@examples(200)
@given(runs_of_any_length, st.floats(-100, 100), st.sampled_from([0.95, 0.99, 0.5]))
def test_sums_have_the_bits_of_the_recursion_one_by_one(runs, start, keep):
    before = [start] * len(runs)
    assert summed(runs, before, keep) == one_by_one(runs, before, keep)


@pytest.mark.parametrize("lengths", [[1000], [1000] * 40, [5000, 300, *[20] * 100], [1] * 500])
def test_long_runs_and_many_runs_have_the_same_bits_too(lengths):
    random = np.random.default_rng(2)
    runs = [random.normal(size=length).tolist() for length in lengths]
    before = random.normal(size=len(runs)).tolist()
    assert summed(runs, before, 0.95) == one_by_one(runs, before, 0.95)


@pytest.mark.parametrize("last", [float("inf"), float("-inf"), float("nan")])
def test_a_run_whose_sum_is_not_finite_changes_no_other_run(last):
    assert summed([[1.0, last], [2.0, 3.0]], [0.0, 4.0], 0.5)[2:] == [4.0, 5.0]


def test_total_weights_are_those_of_a_mean_that_forgets():
    weights = total_weights(0.05)
    assert weights[:4].tolist() == pytest.approx([1 - 0.95**number for number in range(4)])
    assert of_number(weights, np.array([0, 10**6])).tolist() == pytest.approx([0, 1])
