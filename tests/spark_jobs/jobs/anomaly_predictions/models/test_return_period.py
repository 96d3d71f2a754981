from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.jobs.anomaly_predictions.models.rarity import HEAD_START, LASTING, REMEMBERED, History, Largest
from spark_jobs.jobs.anomaly_predictions.models.return_period import ReturnPeriod
from spark_jobs.jobs.anomaly_predictions.models.time_of_day import CELL
from tests.examples import examples

MODEL = ReturnPeriod()
MONDAY = datetime(2026, 1, 5, tzinfo=UTC)
A_DAY = 288
"""Events a day, one in five minutes."""
DAY = 86_400_000_000
HOUR = DAY // 24


def events(values, step=timedelta(minutes=5)):
    rows = {
        "key": ["a"] * len(values),
        "event_time": [MONDAY + step * number for number in range(len(values))],
        "value": values,
    }
    return pl.DataFrame(rows, schema_overrides={"value": pl.Float64, "event_time": pl.Datetime("us", "UTC")})


def scores(values, step=timedelta(minutes=5)):
    return learned(events(values, step))[0]["score"].to_numpy()


def learned(frame):
    return MODEL.predict_then_learn(MODEL.initial(pl.Series(["a"])), frame)


def alarms(values):
    return np.flatnonzero(scores(values) > MODEL.threshold)


def daily(days, noise=1.0, seed=1):
    """Busy days and quiet nights."""
    time = np.arange(days * A_DAY) / A_DAY
    return 100 + 40 * np.sin(2 * np.pi * time) + np.random.default_rng(seed).normal(0, noise, len(time))


def history():
    return History(Largest([], []), Largest([], []), [], [])


def test_a_spike_alarms_at_once():
    values = daily(12)
    values[10 * A_DAY + 70] = 260
    assert 10 * A_DAY + 70 in alarms(values)


def test_a_usual_value_at_an_unusual_time_of_day_alarms():
    values = daily(12)
    values[10 * A_DAY + 216] = 135  # the height of the day, in the depth of the night
    assert values.max() > 135
    assert 10 * A_DAY + 216 in alarms(values)


def test_a_new_level_alarms_within_half_an_hour_and_then_is_not_repeated_for_a_day_and_a_half():
    values = daily(14)
    shift = 10 * A_DAY + 100
    values[shift:] += 30
    found = alarms(values)
    after = found[found >= shift]
    assert after[0] <= shift + 6
    assert (np.diff(after[after < shift + 3 * A_DAY // 2]) < A_DAY).all(), "the episode goes on, it is not news twice"
    assert len(after[after < shift + 3 * A_DAY // 2]) < 10


def test_a_metric_that_goes_flat_alarms_before_its_next_rise_is_over():
    values = daily(14)
    stop = 10 * A_DAY + 220
    values[stop:] = values[stop]
    found = alarms(values)
    assert ((found >= stop) & (found < stop + A_DAY // 2)).any()


def test_a_steady_day_after_day_metric_alarms_seldom():
    assert len(alarms(daily(28))) <= 28 / 3.5


def test_a_metric_that_never_changes_never_alarms():
    assert not scores(np.full(9 * A_DAY, 0.1)).any()


def test_a_weekend_is_usual_once_there_was_one():
    values = daily(28, noise=0.5)
    day = np.arange(len(values)) // A_DAY
    values[day % 7 >= 5] -= 60
    third_weekend = scores(values)[19 * A_DAY : 21 * A_DAY]
    assert third_weekend.max() < MODEL.threshold


def test_the_unit_of_the_metric_does_not_matter():
    values = np.round(daily(12), 1)
    values[10 * A_DAY + 70] = 260
    assert (scores(values) == scores(values * 1024 - 4096)).all()


def test_metrics_by_the_hour_are_judged_too():
    values = daily(90)[::12]
    values[40 * 24 + 5] = 300
    assert scores(values, timedelta(hours=1))[40 * 24 + 5] > MODEL.threshold


@examples(20)
@given(cut=st.integers(1, 4 * A_DAY - 1))
def test_what_comes_later_changes_no_score(cut):
    values = daily(4)
    values[2 * A_DAY + 50] = 300
    assert (scores(values)[:cut] == scores(values[:cut])).all()


def test_a_model_keeps_a_week_and_no_more():
    _, models = learned(events(daily(30)))
    cells = models["cell"].to_list()[0]
    assert len(cells) == len(set(cells)) <= 7 * 96 + 4
    assert cells[-1] - cells[0] <= 7 * 96 + 3
    assert min(models["peak_time"].to_list()[0]) >= models["began"][0] + 28 * DAY
    assert models["cell_low"].list.len().to_list() == [len(cells)]
    assert cells[-1] == int((MONDAY + timedelta(days=30) - timedelta(minutes=5)).timestamp() * 1e6) // CELL


def test_the_largest_surprise_so_far_is_as_rare_as_the_time_known_is_long():
    largest = Largest([], [])
    for day in range(10):
        largest.learn(1.0 + day % 2, day * DAY)
    assert largest.period(3.0, 10 * DAY, 10 * DAY) == 10 + HEAD_START / DAY
    assert largest.period(2.0, 10 * DAY, 10 * DAY) == pytest.approx((10 + HEAD_START / DAY) / 6)
    assert largest.period(0.5, 10 * DAY, 10 * DAY) == pytest.approx((10 + HEAD_START / DAY) / 11)
    assert largest.period(0.0, 10 * DAY, 10 * DAY) == 0


def test_surprises_of_more_than_sixty_days_ago_are_forgotten():
    largest = Largest([], [])
    largest.learn(9.0, 0)
    largest.learn(5.0, 30 * DAY)
    assert largest.period(5.0, 59 * DAY, 59 * DAY) == pytest.approx(62 / 3)
    assert largest.period(5.0, 61 * DAY, 61 * DAY) == pytest.approx(63 / 2)
    largest.learn(1.0, 61 * DAY)
    assert largest.sizes == [1.0, 5.0]


def test_only_the_largest_are_remembered_and_smaller_ones_are_nothing():
    largest = Largest([], [])
    for size in range(1, 200):
        largest.learn(float(size), size)
    assert largest.sizes == [float(size) for size in range(200 - REMEMBERED, 200)]
    assert largest.period(100.0, DAY, DAY) == 0


def test_an_event_is_news_if_it_is_rarer_than_the_day_and_a_half_before_it():
    past = history()
    past.learn(1.0, 0, 5.0)
    assert not past.is_news(5.0, 36 * HOUR)
    assert past.is_news(5.1, HOUR)
    assert past.is_news(5.0, 36 * HOUR + 1)
    assert past.is_news(1.0, 0), "what came at the same moment was not before it"


def test_a_surprise_that_lasts_is_rare_though_single_ones_were_larger():
    past = history()
    for day in range(20):
        past.learn(10.0, day * DAY, 0.0)
        past.learn(0.0, day * DAY + HOUR, 0.0)
    now = 20 * DAY
    single = past.rarity(8.0, now, now)
    for step in range(LASTING - 1):
        past.learn(8.0, now + step, 0.0)
    assert past.rarity(8.0, now + LASTING, now) > 5 * single
