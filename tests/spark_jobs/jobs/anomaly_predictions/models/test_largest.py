"""Return periods of surprises, against counting."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.jobs.anomaly_predictions.models.largest import (
    HEAD_START,
    HORIZON,
    MICROSECONDS_A_DAY,
    REMEMBERED,
    Largest,
    unpacked,
)
from tests.examples import examples

DAY = MICROSECONDS_A_DAY


def periods(largest, rows):
    sizes, times = np.array([size for size, _ in rows], dtype=float), np.array([time for _, time in rows])
    return largest.learn(sizes, times, 0).tolist()


def by_counting(rows):
    """Of each surprise the days known, by how many of the last sixty days were as large; itself one of them."""
    expected, kept = [], []
    for size, time in rows:
        kept = [(one, then) for one, then in kept if then > time - HORIZON]
        if size <= 0 or (len(kept) == REMEMBERED and size < min(kept)[0]):
            expected.append(0.0)
            continue
        as_large = sum(one >= size for one, _ in kept)
        expected.append((min(time, HORIZON) + HEAD_START) / DAY / (as_large + 1))
        kept = sorted([*kept, (size, time)], key=lambda one: one[0])[-REMEMBERED:]
    return expected


def test_the_largest_surprise_so_far_is_as_rare_as_the_time_known_is_long():
    largest = Largest([], [])
    periods(largest, [(1.0 + day % 2, day * DAY) for day in range(10)])
    assert largest.period(3.0, 10 * DAY, 0) == 10 + HEAD_START / DAY
    assert largest.period(2.0, 10 * DAY, 0) == pytest.approx((10 + HEAD_START / DAY) / 6)
    assert largest.period(0.5, 10 * DAY, 0) == pytest.approx((10 + HEAD_START / DAY) / 11)
    assert largest.period(0.0, 10 * DAY, 0) == 0


def test_surprises_that_differ_by_rounding_are_as_large():
    largest = Largest([0.1 + 0.2], [0])
    assert largest.period(0.3, DAY, 0) == pytest.approx((1 + HEAD_START / DAY) / 2)


@examples(60)
@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 3 * 24)), min_size=1, max_size=400),
    st.lists(st.integers(0, 400), max_size=3),
)
def test_periods_are_those_of_counting_however_the_surprises_are_split(drawn, cuts):
    times = np.cumsum([hours * DAY // 24 for _, hours in drawn])
    rows = [(float(size), int(time)) for (size, _), time in zip(drawn, times, strict=True)]
    largest, found = Largest([], []), []
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(rows)], strict=True):
        found += periods(largest, rows[start:end])
        [largest] = unpacked(largest.sizes, largest.times, [len(largest.sizes)])
    assert found == pytest.approx(by_counting(rows))
    assert len(largest.sizes) <= REMEMBERED
    assert largest.sizes == sorted(largest.sizes)


def test_several_are_unpacked_from_lists_one_behind_the_other():
    first, none, second = unpacked([1.0, 2.0, 5.0], [10, 20, 30], [2, 0, 1])
    assert (first.sizes, first.times) == ([1.0, 2.0], [10, 20])
    assert (none.sizes, none.times) == ([], [])
    assert (second.sizes, second.times) == ([5.0], [30])
