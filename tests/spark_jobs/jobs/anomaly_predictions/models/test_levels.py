"""How likely levels are, against counting in plain Python, one value after the other."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.jobs.anomaly_predictions.models.levels import LEVELS, PRIOR, UNTRAINED, Levels
from tests.examples import examples


class Counted:
    """The levels of one metric, and the number of values on each."""

    def __init__(self):
        self.origin, self.step, self.values, self.counts = 0.0, 0.0, [], {}

    def level(self, value):
        if self.step == 0.0:
            return 0 if value == self.origin else math.copysign(math.inf, value - self.origin)
        return math.floor((value - self.origin) / self.step)

    def surprise(self, value):
        level = self.level(value)
        near = sum(count * {0: 2, 1: 1}.get(abs(one - level), 0) for one, count in self.counts.items())
        surprise = (len(self.values) + PRIOR) / (near / 4 + PRIOR / LEVELS)
        return surprise if surprise > LEVELS else 0.0

    def learn(self, value):
        if not self.values:
            self.origin = value
        self.values.append(value)
        if self.step == 0.0 and value != self.origin:
            self.step = 0.0637 * abs(value - self.origin)
        while self.step and self.level(max(self.values)) - self.level(min(self.values)) >= LEVELS:
            self.step *= 2
            merged = {}
            for level, count in self.counts.items():
                merged[level // 2] = merged.get(level // 2, 0) + count
            self.counts = merged
        self.counts[self.level(value)] = self.counts.get(self.level(value), 0) + 1


numbers = st.one_of(st.integers(-4, 4).map(float), st.integers(-3000, 3000).map(lambda one: one / 8), st.just(7e9))


@examples(200)
@given(st.lists(numbers, min_size=1, max_size=120), st.lists(st.integers(0, 120), max_size=3))
def test_surprises_are_those_of_counting_however_the_values_are_split(values, cuts):
    columns, found = UNTRAINED, []
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(values)], strict=True):
        levels = Levels(columns)
        found += levels.learn(np.array(values[start:end])).tolist()
        columns = levels.columns()
    oracle, expected = Counted(), []
    for value in values:
        expected.append(oracle.surprise(value))
        oracle.learn(value)
    assert found == pytest.approx(expected, rel=1e-12)
    assert sum(columns["level_count"]) == len(values)


def test_values_of_any_size_lie_on_some_level():
    levels = Levels(UNTRAINED)
    assert np.isfinite(levels.learn(np.array([0.0, 5e-324, 1e150, -1e150, 1.0, 1e-140] * 5))).all()
    assert sum(levels.columns()["level_count"]) == 30
