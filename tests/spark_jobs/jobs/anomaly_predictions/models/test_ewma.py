"""Decaying sums of the model `ewma`, against the recursion one by one: the same bits whichever way they are taken.

What the model says is held to its definition in `test_any_history.py` and `test_anomaly_predictions.py`.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.jobs.anomaly_predictions.models.ewma import decaying_sums, of_number, total_weights
from tests.examples import examples


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
