"""Return periods of surprises, against counting; and what is news among rare events."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.jobs.anomaly_predictions.models.return_periods import (
    HEAD_START,
    HORIZON,
    LATE,
    LONGEST_REST,
    REMEMBERED,
    UNTRAINED,
    Largest,
    ReturnPeriods,
)
from tests.examples import examples

LONG_KNOWN = 10_000
"""An event so late in its metric's life that a rest is as long as it gets."""


def periods(largest, rows, learns=True):
    sizes, numbers, horizons = np.array(rows, dtype=float).reshape(-1, 3).T
    return largest.periods(sizes, numbers.astype(int), horizons.astype(int), learns=learns).tolist()


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
    assert periods(Largest([0.1 + 0.2], [0]), [(0.3, 1, HORIZON)], learns=False) == [(1 + HEAD_START) / 2]


@examples(60)
@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(1, 600)), min_size=1, max_size=400),
    st.integers(0, 3),
    st.lists(st.integers(0, 400), max_size=3),
)
def test_periods_are_those_of_counting_however_the_surprises_are_split(drawn, longer, cuts):
    numbers = np.cumsum([step for _, step in drawn]).tolist()
    rows = [(size, number, HORIZON + 1_000 * longer) for (size, _), number in zip(drawn, numbers, strict=True)]
    largest, found = Largest([], []), []
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(rows)], strict=True):
        found += periods(largest, rows[start:end])
        largest = Largest(largest.sizes, largest.numbers)
    assert found == pytest.approx(by_counting(rows))
    assert len(largest.sizes) <= REMEMBERED
    assert largest.sizes == sorted(largest.sizes)


@pytest.mark.parametrize(
    ("times_as_rare", "later", "is_news"),
    [(1.9, 1, False), (1.9, LONGEST_REST - 1, False), (2.1, 1, True), (1.1, LONGEST_REST, True)],
)
def test_after_news_it_rests_but_for_what_is_twice_as_rare(times_as_rare, later, is_news):
    # The first surprise of a metric comes once in all events.
    rarity = LONG_KNOWN + later + HEAD_START
    past = ReturnPeriods({**UNTRAINED, "news": rarity / times_as_rare, "news_number": LONG_KNOWN})
    surprises = np.array([[5.0], *[[0.0]] * 4])
    found = past.rarities(surprises, np.array([LONG_KNOWN + later]), np.array([HORIZON]), learns=True)
    assert found.tolist() == [rarity if is_news else 0]
    assert past.columns()["news"] == (rarity if is_news else rarity / times_as_rare)


def test_what_is_less_rare_than_one_of_the_last_events_is_no_news():
    past = ReturnPeriods({**UNTRAINED, "peak": [1e9], "peak_number": [LONG_KNOWN - LATE]})
    surprises = np.array([[5.0, 6.0], *[[0.0, 0.0]] * 4])
    numbers = np.array([LONG_KNOWN, LONG_KNOWN + 1])
    assert (past.rarities(surprises, numbers, np.full(2, HORIZON), learns=False) > 0).tolist() == [False, True]
