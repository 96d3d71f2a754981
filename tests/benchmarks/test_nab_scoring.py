import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.nab_scoring import (
    PROFILES,
    ScoredSeries,
    best_result,
    probationary_rows,
    result_at,
    scaled_sigmoid,
    sweep,
)


def alarms(length, rows, windows=()):
    """A series whose detector alarms at these rows only."""
    scores = np.zeros(length)
    scores[list(rows)] = 1.0
    return ScoredSeries(scores, windows)


def written_sigmoid(relative):
    return 2.0 / (1.0 + math.exp(5.0 * relative)) - 1.0


def raw_by_the_book(series, threshold, profile):
    """The raw score of one series, row by row, as the benchmark's paper tells it."""
    length = len(series.scores)
    total, best, last_window = 0.0, {}, None
    for number, (_, last) in enumerate(series.windows):
        if last >= probationary_rows(length):
            best[number] = -profile.false_negative
    for row in range(length):
        number = next((n for n, (first, last) in enumerate(series.windows) if first <= row <= last), None)
        if number is not None:
            first, last = series.windows[number]
            worth = written_sigmoid((row - last - 1) / (last - first + 1)) / written_sigmoid(-1)
        elif last_window is None:
            worth = -1.0
        else:
            first, last = last_window
            relative = (row - last) / (last - first) if last > first else 3.0
            worth = -1.0 if relative >= 3.0 else written_sigmoid(relative)
        if number is not None and row == series.windows[number][1]:
            last_window = series.windows[number]
        if row < probationary_rows(length) or not series.scores[row] >= threshold:
            continue
        if number is None:
            total += profile.false_positive * worth
        else:
            best[number] = max(best[number], worth)
    return total + sum(best.values())


@st.composite
def some_series(draw):
    length = draw(st.integers(1, 60))
    edges = sorted(draw(st.sets(st.integers(0, length - 1), max_size=6)))
    windows = tuple(zip(edges[::2], edges[1::2], strict=False))
    scores = draw(st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.5, 0.9, math.nan]), min_size=length, max_size=length))
    return ScoredSeries(np.array(scores), windows)


def test_the_sigmoid_has_the_values_that_the_benchmark_names():
    named = {-1.0: 0.98661, -0.5: 0.84828, 0.0: 0.0, 1.0: -0.98661}
    values = scaled_sigmoid(np.array(list(named)))
    assert values == pytest.approx(list(named.values()), abs=1e-5)


def test_the_probationary_period_is_fifteen_in_a_hundred_rows_and_750_at_most():
    assert [probationary_rows(length) for length in (7, 100, 4032, 5000, 22_695)] == [1, 15, 604, 750, 750]


def test_no_alarm_scores_nothing_and_the_first_row_of_each_window_scores_a_hundred():
    windows = ((40, 49), (80, 89))
    for profile in PROFILES:
        assert best_result([alarms(100, [], windows)], profile).normalised == 0
        assert result_at(1.0, [alarms(100, [40, 80], windows)], profile).normalised == pytest.approx(100)


@given(st.lists(some_series(), min_size=1, max_size=4), st.sampled_from(PROFILES))
def test_the_sweep_is_what_counting_row_by_row_gives_at_every_threshold(series, profile):
    thresholds, raws = sweep(series, profile)
    assert (np.diff(thresholds) < 0).all()
    for threshold, raw in zip(thresholds, raws, strict=True):
        assert raw == pytest.approx(sum(raw_by_the_book(one, threshold, profile) for one in series), abs=1e-9)
    for threshold in (0.05, 0.15, 0.3, 0.95):
        expected = sum(raw_by_the_book(one, threshold, profile) for one in series)
        assert result_at(threshold, series, profile).raw == pytest.approx(expected, abs=1e-9)
