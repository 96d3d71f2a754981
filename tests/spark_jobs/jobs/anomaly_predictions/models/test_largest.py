"""Return periods of surprises, against counting."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.jobs.anomaly_predictions.models.largest import (
    HEAD_START,
    HORIZON,
    REMEMBERED,
    Largest,
    unpacked,
)
from tests.examples import examples


def periods(largest, rows):
    sizes, numbers, horizons = (np.array(column) for column in zip(*rows, strict=True)) if rows else [np.array([])] * 3
    return largest.learn(sizes, numbers, horizons).tolist() if rows else []


def by_counting(rows):
    """Of each surprise the events known, by how many within the horizon were as large; itself one of them."""
    expected, kept = [], []
    for size, number, horizon in rows:
        young = [(one, then) for one, then in kept if then > number - horizon]
        if size <= 0 or (len(young) == REMEMBERED and size < min(young)[0]):
            expected.append(0.0)
            continue
        as_large = sum(one >= size for one, _ in young)
        expected.append((min(number, horizon) + HEAD_START) / (as_large + 1))
        kept = sorted([*young, (size, number)], key=lambda one: one[0])[-REMEMBERED:]
    return expected


def test_surprises_that_differ_by_rounding_are_as_large():
    largest = Largest([0.1 + 0.2], [0])
    assert largest.period(0.3, 1, HORIZON) == (1 + HEAD_START) / 2


@examples(60)
@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(1, 600), st.integers(0, 3)), min_size=1, max_size=400),
    st.lists(st.integers(0, 400), max_size=3),
)
def test_periods_are_those_of_counting_however_the_surprises_are_split(drawn, cuts):
    numbers = np.cumsum([step for _, step, _ in drawn])
    rows = [
        (float(size), int(number), HORIZON + 1_000 * longer)
        for (size, _, longer), number in zip(drawn, numbers, strict=True)
    ]
    largest, found = Largest([], []), []
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(rows)], strict=True):
        found += periods(largest, rows[start:end])
        [largest] = unpacked(largest.sizes, largest.numbers, [len(largest.sizes)])
    assert found == pytest.approx(by_counting(rows))
    assert len(largest.sizes) <= REMEMBERED
    assert largest.sizes == sorted(largest.sizes)
