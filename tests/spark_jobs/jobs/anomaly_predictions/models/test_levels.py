"""How likely levels are and how long values stay, against counting in plain Python, one event after the other."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.jobs.anomaly_predictions.models import levels, stays
from spark_jobs.jobs.anomaly_predictions.models.levels import FIRST, LEVELS, PRIOR
from spark_jobs.jobs.anomaly_predictions.models.runs import key_runs
from tests.examples import examples

HOUR = 3_600_000_000


class Counted:
    """The levels of one metric, each value of which is kept with its hour and its weight."""

    def __init__(self):
        self.known, self.origin, self.step, self.values, self.weights = 0, 0.0, 0.0, [], {}

    def level(self, value):
        if self.step == 0.0:
            return 0 if value == self.origin else math.copysign(math.inf, value - self.origin)
        return math.floor((value - self.origin) / self.step)

    def surprise(self, value, hour):
        level = self.level(value)

        def near(here):
            return sum(
                count * {0: 2, 1: 1}.get(abs(one - level), 0)
                for (one, at), count in self.weights.items()
                if here is None or at == here
            )

        total, here = (sum(c for (_, at), c in self.weights.items() if one in (None, at)) for one in (None, hour))
        p = (near(None) / 4 + PRIOR / LEVELS) / (total + PRIOR)
        q = (near(hour) / 4 + PRIOR * p) / (here + PRIOR)
        surprise = 1 / (p * q)
        return surprise if self.known >= FIRST and surprise > LEVELS * LEVELS else 0.0

    def learn(self, value, hour):
        if not self.known:
            self.origin = value
        if self.known >= 2 * levels.HALVED_EVERY and self.known % levels.HALVED_EVERY == 0:
            self.weights = {place: count // 2 for place, count in self.weights.items()}
        self.values.append(value)
        self.known += 1
        if self.step == 0.0 and value != self.origin:
            self.step = 0.0637 * abs(value - self.origin)
        while self.step and self.level(max(self.values)) - self.level(min(self.values)) >= LEVELS:
            self.step *= 2
            joined = {}
            for (level, at), count in self.weights.items():
                joined[level // 2, at] = joined.get((level // 2, at), 0) + count
            self.weights = joined
        place = self.level(value), hour
        self.weights[place] = self.weights.get(place, 0) + 1


def frames(drawn):
    """Events, and models of all keys that there may be."""
    events = pl.DataFrame(drawn, schema={"key": pl.String, "hour": pl.Int64, "value": pl.Float64}, orient="row")
    return events.sort("key", maintain_order=True), models_of("abc")


def models_of(keys):
    return pl.DataFrame({"key": list(keys)}).with_columns(levels.initial(len(keys)))


def learned(models, events, known):
    runs = key_runs(models, events)
    hours, values = events["hour"].to_numpy() * HOUR, events["value"].to_numpy()
    seen = levels.learn(models, known[runs.model], runs, hours, values)
    found = levels.surprises(seen, runs, known[runs.model], values, runs.rank)
    known = known.copy()
    known[runs.model] += runs.counts
    return models.with_columns(levels.columns(models, runs, seen)), found, known


numbers = st.one_of(st.integers(-4, 4).map(float), st.integers(-3000, 3000).map(lambda one: one / 8), st.just(7e9))
some_events = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 30), numbers), min_size=1, max_size=120)


@examples(60)
@given(some_events, st.integers(0, 120))
def test_surprises_are_those_of_counting_however_the_events_are_split(drawn, cut):
    events, models = frames(drawn)
    known, found = np.zeros(3, np.int64), []
    for part in (events[:cut], events[cut:]):
        if part.height:
            models, surprises, known = learned(models, part, known)
            found += surprises.tolist()
    oracles, expected = {key: Counted() for key in "ab"}, []
    for key, hour, value in events.iter_rows():
        expected.append(oracles[key].surprise(value, hour % 24))
        oracles[key].learn(value, hour % 24)
    assert found == pytest.approx(expected, rel=1e-12)


def test_counts_are_halved_now_and_then_and_stay_small(monkeypatch):
    monkeypatch.setattr(levels, "HALVED_EVERY", 40)
    drawn = [("a", number % 7, float(number * number % 17)) for number in range(300)]
    events, models = frames(drawn)
    models, found, _ = learned(models, events, np.zeros(3, np.int64))
    oracle, expected = Counted(), []
    for _, hour, value in drawn:
        expected.append(oracle.surprise(value, hour))
        oracle.learn(value, hour)
    assert found.tolist() == pytest.approx(expected, rel=1e-12)
    assert sum(models["level_count"][0]) == sum(oracle.weights.values()) < 80


def test_values_of_any_size_lie_on_some_level():
    drawn = [("a", 0, value) for value in (0.0, 5e-324, 1e150, -1e150, 1.0, 1e-140)] * 5
    events, models = frames(drawn)
    models, found, _ = learned(models, events, np.zeros(3, np.int64))
    assert np.isfinite(found).all()
    assert sum(models["level_count"][0]) == 30


@examples(60)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 1)), min_size=1, max_size=80), st.integers(0, 80))
def test_stays_are_those_of_counting_however_the_events_are_split(drawn, cut):
    events, models = frames([(key, 0, value) for key, value in drawn])
    previous, same, found = np.full(3, np.nan), np.zeros(3, np.int64), []
    for part in (events[:cut], events[cut:]):
        if part.height:
            runs, values = key_runs(models, part), part["value"].to_numpy()
            seen = stays.learn(values, runs, previous[runs.model], same[runs.model])
            found += stays.surprises(seen, runs, runs.rank, np.ones(part.height, bool)).tolist()
            ends = runs.starts + runs.counts - 1
            previous[runs.model], same[runs.model] = values[ends], seen.lengths[ends]
    expected, last = [], {}
    for key, _, value in events.iter_rows():
        before, length = last.get(key, (None, 0))
        length = length + 1 if value == before else 1
        last[key] = value, length
        expected.append(length if length >= stays.NOTICED else 0)
    assert found == expected
