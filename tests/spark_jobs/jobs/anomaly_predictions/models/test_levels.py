"""How likely levels are, against counting in plain Python, one value after the other."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.jobs.anomaly_predictions.models.levels import LEVELS, PRIOR, Levels
from spark_jobs.jobs.anomaly_predictions.models.rarity import Rarity
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
@given(st.lists(st.tuples(st.integers(0, 2), numbers), min_size=1), st.lists(st.integers(0, 120), max_size=3))
def test_surprises_are_those_of_counting_however_the_values_are_split(drawn, cuts):
    models, found = Rarity().initial(pl.Series(["a", "b", "c"])), {0: [], 1: [], 2: []}
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(drawn)], strict=True):
        part = sorted(drawn[start:end], key=lambda one: one[0])
        keys, values = np.array(part, float).reshape(-1, 2).T
        levels = Levels(models)
        for (key, _), surprise in zip(part, levels.learn(keys.astype(int), values).tolist(), strict=True):
            found[key].append(surprise)
        models = models.with_columns(**levels.columns())
    for key, surprises in found.items():
        oracle, expected = Counted(), []
        for value in (value for one, value in drawn if one == key):
            expected.append(oracle.surprise(value))
            oracle.learn(value)
        assert surprises == pytest.approx(expected, rel=1e-12)
        assert models["level_count"][key].sum() == len(expected)


def test_values_of_any_size_lie_on_some_level():
    levels = Levels(Rarity().initial(pl.Series(["a"])))
    values = np.array([0.0, 5e-324, 1e150, -1e150, 1.0, 1e-140] * 5)
    assert np.isfinite(levels.learn(np.zeros(30, int), values)).all()
    assert levels.columns()["level_count"][0].sum() == 30
