"""The model `rarity`: what it sees, how often it alarms, and what it does after an anomaly."""

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.keyed.rows.codec import decode, encode
from spark_jobs.jobs.anomaly_predictions.models.daily_bands import KEPT_CELLS
from spark_jobs.jobs.anomaly_predictions.models.rarity import Rarity
from spark_jobs.jobs.anomaly_predictions.models.return_periods import REMEMBERED
from tests.examples import examples

MODEL = Rarity()
MONDAY = datetime(2026, 1, 5, tzinfo=UTC)
A_DAY = 288
"""Events a day, one in five minutes."""


def events(values, step=timedelta(minutes=5)):
    rows = {
        "key": ["a"] * len(values),
        "event_time": [MONDAY + step * number for number in range(len(values))],
        "value": values,
    }
    return pl.DataFrame(rows, schema_overrides={"value": pl.Float64, "event_time": pl.Datetime("us", "UTC")})


def learned(frame, model=MODEL):
    return model.predict_then_learn(model.initial(frame["key"].unique().sort()), frame)


def scores(values, model=MODEL, step=timedelta(minutes=5)):
    return learned(events(values, step), model)[0]["score"].to_numpy()


def alarms(values, model=MODEL):
    return np.flatnonzero(scores(values, model) > MODEL.threshold)


def daily(days, noise=1.0, seed=1):
    """Busy days and quiet nights."""
    time = np.arange(days * A_DAY) / A_DAY
    return 100 + 40 * np.sin(2 * np.pi * time) + np.random.default_rng(seed).normal(0, noise, len(time))


def days_to_score(days):
    return days / (days + 3.5)


def alarms_within(values, start, hours):
    found = alarms(values)
    return found[(found >= start) & (found < start + 12 * hours)]


def test_a_spike_alarms_at_once():
    values = daily(14)
    values[11 * A_DAY + 70] = 260
    assert 11 * A_DAY + 70 in alarms(values)


def test_a_usual_value_at_an_unusual_time_of_day_alarms():
    values = daily(14)
    values[11 * A_DAY + 216] = 135  # the height of the day, in the depth of the night
    assert values.max() > 135
    assert 11 * A_DAY + 216 in alarms(values)


def test_a_shift_within_the_noise_alarms_because_it_lasts():
    values = daily(21, noise=4.0)
    shift = 15 * A_DAY
    values[shift : shift + A_DAY] += 9
    assert len(alarms_within(values, shift, hours=12))
    assert not len(alarms_within(daily(21, noise=4.0), shift, hours=12))


def test_a_metric_that_does_not_come_down_any_more_alarms():
    values = np.random.default_rng(5).normal(100, 2, 14 * A_DAY)
    values[::12] = 20  # once an hour it is idle for a moment
    busy = 10 * A_DAY
    values[busy : busy + A_DAY] = np.maximum(values[busy : busy + A_DAY], 95)
    assert len(alarms_within(values, busy, hours=5))
    assert not len(alarms_within(values, busy, hours=1)), "an hour without a pause is nothing yet"


def test_a_metric_that_never_changes_never_alarms():
    assert not scores(np.full(9 * A_DAY, 0.1)).any()


def test_a_weekend_is_usual_once_there_were_two():
    values = daily(28, noise=0.5)
    day = np.arange(len(values)) // A_DAY
    values[day % 7 >= 5] -= 60
    assert scores(values)[19 * A_DAY : 21 * A_DAY].max() < MODEL.threshold


def test_the_unit_of_the_metric_does_not_matter():
    values = np.round(daily(12), 1)
    values[10 * A_DAY + 70] = 260
    assert (scores(values) == scores(values * 1024 - 4096)).all()


@pytest.mark.parametrize("minutes", [1, 15, 60])
def test_metrics_of_any_pace_are_judged(minutes):
    """A score counts days, so a metric must have been watched for days, however many events they are."""
    values = np.random.default_rng(3).normal(100, 5, 10 * A_DAY)
    values[9 * A_DAY] = 300
    found = scores(values, step=timedelta(minutes=minutes))[9 * A_DAY]
    since_it_began = 9 * A_DAY * minutes / 1440
    assert found == pytest.approx(days_to_score(since_it_began + 2016 * minutes / 1440))


def test_in_a_shift_each_value_is_predicted_without_learning_as_it_is_before_it_is_learned():
    values = daily(21, noise=4.0)
    values[15 * A_DAY : 16 * A_DAY] += 9
    frame = events(values)
    _, models = learned(frame[: 15 * A_DAY])
    scored = 0
    for row in range(15 * A_DAY, 15 * A_DAY + 100):
        frozen = MODEL.predict(models, frame[row : row + 1])
        alone, models = MODEL.predict_then_learn(models, frame[row : row + 1])
        assert frozen.equals(alone)
        scored += frozen["score"].item() > 0
    assert scored


def test_a_late_value_is_judged_by_all_days_that_the_metric_is_known():
    frame = events(np.random.default_rng(3).normal(100, 5, 9 * A_DAY))
    late = frame[5 * A_DAY : 5 * A_DAY + 1].with_columns(value=pl.lit(300.0))
    found = MODEL.predict(learned(frame)[1], late)["score"].item()
    mean_days = (frame.height - 1) / A_DAY / frame.height
    assert found == pytest.approx(days_to_score((frame.height + 2016) * mean_days))


def test_a_value_on_a_level_that_was_never_there_alarms_though_it_lies_within_its_band():
    values = np.where(np.random.default_rng(2).random(14 * A_DAY) < 0.5, 10.0, 90.0)
    values[11 * A_DAY + 70] = 50.0
    assert 11 * A_DAY + 70 in alarms(values)


# After an anomaly.


def anomalous_day(days=24):
    """A metric whose eleventh day is half as high again at the same hours, and one that has no such day."""
    values = daily(days)
    spoilt = values.copy()
    spoilt[10 * A_DAY + 60 : 10 * A_DAY + 120] += 70
    return values, spoilt


def test_an_episode_is_one_alarm_and_not_one_with_every_event():
    _, spoilt = anomalous_day()
    found = alarms_within(spoilt, 10 * A_DAY, hours=24)
    assert 1 <= len(found) <= 2


def test_an_anomaly_is_not_learned_at_once_the_band_of_the_next_days_is_what_it_was():
    values, spoilt = anomalous_day()
    clean, after = learned(events(values))[0], learned(events(spoilt))[0]
    next_days = slice(11 * A_DAY, 17 * A_DAY)
    low, high = (after[end].to_numpy()[next_days] for end in ("low", "high"))
    assert np.abs(low - clean["low"].to_numpy()[next_days]).max() < 3
    assert np.abs(high - clean["high"].to_numpy()[next_days]).max() < 3, "one bad day of seven does not widen it"


def test_the_model_does_not_stay_silent_the_same_anomaly_a_week_later_is_rare_still():
    _, spoilt = anomalous_day(days=30)
    spoilt[20 * A_DAY + 60 : 20 * A_DAY + 120] += 75
    assert len(alarms_within(spoilt, 20 * A_DAY + 60, hours=6))


def test_what_comes_every_day_is_usual_after_three():
    values = daily(30)
    for day in range(10, 30):
        values[day * A_DAY + 60 : day * A_DAY + 120] += 70
    assert len(alarms_within(values, 10 * A_DAY, hours=24))
    assert not len(alarms_within(values, 14 * A_DAY, hours=16 * 24))


# Calibration.

CALM = {
    "noise": lambda random, day: 50 + 3 * random.normal(size=len(day)),
    "busy days": lambda random, day: 300 * day_shape(day) * np.exp(0.1 * random.normal(size=len(day))),
    "bursts of counts": lambda random, day: random.poisson(
        9 * day_shape(day) * random.gamma(0.8, 1.25, size=len(day))
    ).astype(float),
    "heavy tails": lambda random, day: 5 * (1 + random.pareto(2.5, size=len(day))),
    "a coarse gauge": lambda random, day: random.choice(
        [4.0, 5.0, 6.0, 7.0], p=[0.03, 0.85, 0.11, 0.01], size=len(day)
    ),
    "a sawtooth": lambda random, day: 100 * (0.2 + day / 0.37 % 1 + 0.02 * random.normal(size=len(day))),
}
"""Metrics in which nothing happens, by their times in days."""


def day_shape(day):
    return 0.3 + 0.35 * (1 + np.cos(2 * np.pi * (day - 0.6)))


def calm_metric(kind, seed, days, minutes=5, gaps=False):
    """A calm metric with a value every few minutes, or with hours without any."""
    random = np.random.default_rng(seed)
    day = np.arange(0, days, minutes / 1440)
    if gaps:
        day = day[np.all([abs(day - at) > 0.15 for at in random.uniform(0, days, 5)], axis=0)]
    micros = pl.Series((day * 86_400_000_000).round().astype(np.int64))
    return pl.DataFrame(
        {
            "key": f"{kind}-{seed}",
            "event_time": micros.cast(pl.Duration("us")) + MONDAY,
            "value": CALM[kind](random, day),
        }
    )


@pytest.fixture(scope="module")
def calm():
    """Ten weeks of every kind of metric in which nothing happens, all in one call, and their scores."""
    series = [calm_metric(kind, seed, 70, gaps=seed == 12) for kind in CALM for seed in (11, 12)]
    frame = pl.concat(series).sort("key", "event_time", "value")
    predicted, models = learned(frame)
    weeks = (pl.col("event_time") - pl.col("event_time").min().over("key")).dt.total_seconds() / (7 * 86_400)
    return frame.with_columns(score=predicted["score"], week=weeks), models


@pytest.mark.parametrize(("alarms_per_week", "at_most", "on_average"), [(0.5, 2, 1.25), (1, 1.5, 1), (2, 1.5, 1)])
def test_a_stated_rate_of_alarms_holds_on_calm_metrics_of_every_kind(calm, alarms_per_week, at_most, on_average):
    """No metric may pass so many times the rate stated; of one alarm in two weeks eight weeks have few."""
    threshold = 2 / (2 + alarms_per_week)
    after = calm[0].filter(pl.col("week") >= 2)
    rates = after.group_by("key").agg(
        rate=(pl.col("score") > threshold).sum() / (pl.col("week").max() - pl.col("week").min()) / alarms_per_week
    )
    assert len(rates) == 2 * len(CALM)
    assert rates["rate"].max() <= at_most
    assert 0.2 <= rates["rate"].mean() <= on_average, "nor is the rate reached by never alarming"


def test_state_is_bounded_whatever_the_metric(calm):
    models = calm[1]
    assert max(models["cell_low"].list.len()) <= KEPT_CELLS
    sizes = models.select(pl.col("^.*_size$").list.len().max())
    assert max(sizes.row(0)) <= REMEMBERED
    assert max(models["peak"].list.len()) <= REMEMBERED + 1
    assert models.estimated_size() / models.height < 16_384


# Splits.


@examples(15)
@given(
    kind=st.sampled_from(list(CALM)),
    seed=st.integers(0, 1000),
    minutes=st.sampled_from([5, 10, 60]),
    gaps=st.booleans(),
    anomaly=st.sampled_from([0.0, 1.0, 30.0]),
    cuts=st.lists(st.floats(0, 1), min_size=1, max_size=6),
)
def test_any_split_of_any_metric_gives_the_same_bits(kind, seed, minutes, gaps, anomaly, cuts):
    """A tenth of the metric, past its middle, is stuck at its lowest value, usual, or far higher than ever."""
    frame = calm_metric(kind, seed, 21, minutes, gaps)
    rows = pl.int_range(frame.height)
    frame = frame.with_columns(
        pl.when(rows.is_between(frame.height // 2, frame.height * 6 // 10))
        .then(pl.col("value").min() if not anomaly else pl.col("value") * anomaly)
        .otherwise("value")
    )
    whole, at_once = learned(frame)
    models, parts = MODEL.initial(frame["key"].unique()), []
    rows = sorted(int(cut * frame.height) for cut in cuts)
    for start, end in zip([0, *rows], [*rows, frame.height], strict=True):
        predicted, models = MODEL.predict_then_learn(models, frame[start:end])
        models = decode(encode(models))
        parts.append(predicted)
    assert pl.concat(parts).equals(whole)
    assert models.equals(at_once)
