"""What each model says, against its definition in plain Python."""

import math
import statistics
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest

from spark_jobs.jobs.anomaly_predictions.models import find_model
from spark_jobs.jobs.anomaly_predictions.models.seasonal import BUCKETS
from tests.spark_jobs.jobs.anomaly_predictions import anomaly_oracle

MONDAY = datetime(2026, 1, 5, tzinfo=UTC)


def frame(times, values):
    rows = {"key": ["a"] * len(values), "event_time": times, "value": values}
    return pl.DataFrame(rows, schema_overrides={"value": pl.Float64, "event_time": pl.Datetime("us", "UTC")})


def every(minutes, values):
    return frame([MONDAY + timedelta(minutes=minutes * number) for number in range(len(values))], values)


def predicted(name, events):
    model = find_model(name)
    return model.predict_then_learn(model.initial(pl.Series(["a"])), events)[0].to_dicts()


def score_of(value, expected, deviation):
    """One half at four standard deviations."""
    spread = max(deviation, 1e-9 * abs(expected))
    return 0.0 if value == expected else 1 / (1 + (4 * spread / abs(value - expected)) ** 4)


@pytest.fixture(scope="module")
def values():
    random = np.random.default_rng(1)
    return (random.normal(20, 3, 700) + 50 * (random.random(700) < 0.02)).tolist()


def test_ewma_is_the_recursion_in_plain_python(values):
    oracle = anomaly_oracle.Ewma()
    for value, row in zip(values, predicted("ewma", every(5, values)), strict=True):
        expected, score = oracle.predict(value)
        assert row["expected"] == (None if expected is None else pytest.approx(expected, rel=1e-12))
        assert row["score"] == pytest.approx(score, rel=1e-12)
        oracle.learn(value)


def test_ewma_is_the_weighted_mean_over_all_values_so_far(values):
    rows = predicted("ewma", every(5, values))
    for place in (2, 3, 50, 699):
        weights = 0.95 ** np.arange(place)[::-1]
        assert rows[place]["expected"] == pytest.approx(np.average(values[:place], weights=weights))


def test_robust_is_median_and_distance_of_the_nearest_95_in_100(values):
    rows = predicted("robust", every(5, values))
    for place, row in enumerate(rows):
        last = values[max(0, place - 200) : place]
        if len(last) < 2:
            assert row["expected"] is None
            continue
        median = statistics.median(last)
        distance = sorted(abs(value - median) for value in last)[math.ceil(0.95 * len(last)) - 1]
        assert row["expected"] == pytest.approx(median)
        assert row["score"] == pytest.approx(score_of(values[place], median, distance / 1.959964), rel=1e-6)


def test_robust_takes_the_mean_distance_where_nearly_all_values_are_the_same():
    row = predicted("robust", every(5, [5.0] * 99 + [7.0, 6.0]))[-1]
    assert row["expected"] == 5
    assert row["score"] == pytest.approx(score_of(6, 5, 1.253314 * 2 / 100))


def test_robust_is_not_moved_by_a_burst_that_moves_ewma():
    values = np.random.default_rng(1).normal(20, 3, 300).tolist() + [90.0] * 8
    assert predicted("ewma", every(5, values))[-1]["expected"] > 35
    last = predicted("robust", every(5, values))[-1]
    assert abs(last["expected"] - 20) < 1
    assert last["score"] > find_model("robust").threshold


def bucket_means(times, values, bucket):
    """Decaying means and errors of the buckets of one kind, each predicted before it is learned; None for unknown."""
    kept, rows = {}, []
    for time, value in zip(times, values, strict=True):
        number, level, weight, spread, spread_weight = kept.get(bucket(time), (0, 0.0, 0.0, 0.0, 0.0))
        known = number and (level / weight, math.sqrt(spread / spread_weight) if number > 1 else math.nan)
        rows.append((number, known))
        if number:
            spread = 0.02 * (value - level / weight) ** 2 + 0.98 * spread
            spread_weight = 0.02 + 0.98 * spread_weight
        kept[bucket(time)] = (number + 1, 0.02 * value + 0.98 * level, 0.02 + 0.98 * weight, spread, spread_weight)
    return rows


def test_seasonal_holds_a_value_against_the_finest_bucket_that_has_seen_eight():
    random = np.random.default_rng(4)
    times = [MONDAY + timedelta(minutes=30 * number) for number in range(2000)]
    values = [10 * time.hour + 100 * (time.weekday() > 4) + random.normal() for time in times]
    all_in_one = bucket_means(times, values, lambda time: 0)
    by_hour = bucket_means(times, values, lambda time: time.hour)
    by_hour_of_week = bucket_means(times, values, lambda time: (time.weekday(), time.hour))
    rows = predicted("seasonal", frame(times, values))
    used = set()
    for place, row in enumerate(rows):
        kinds = (all_in_one[place], by_hour[place], by_hour_of_week[place])
        finest = max((kind for kind in range(3) if kinds[kind][0] >= 8), default=0)
        number, known = kinds[finest]
        if number < 2:
            assert row["expected"] is None
            continue
        used.add(finest)
        assert row["expected"] == pytest.approx(known[0])
        assert row["score"] == pytest.approx(score_of(values[place], *known), rel=1e-6, abs=1e-12)
    assert used == {0, 1, 2}


def test_seasonal_knows_nights_from_days_where_ewma_does_not():
    random = np.random.default_rng(4)
    times = [MONDAY + timedelta(minutes=10 * number) for number in range(6 * 24 * 28)]
    values = [(100 if 8 <= time.hour < 18 else 10) + random.normal() for time in times]
    values[-6 * 22] = 50.0
    assert times[-6 * 22].hour == 2
    assert predicted("seasonal", frame(times, values))[-6 * 22]["score"] > 0.99
    assert predicted("ewma", frame(times, values))[-6 * 22]["score"] < 0.9


def test_seasonal_has_a_bucket_an_hour_of_the_week_and_of_the_day_and_one_for_all():
    assert BUCKETS == 193
    model = find_model("seasonal")
    times = [MONDAY, MONDAY + timedelta(days=6, hours=23, minutes=59)]
    models = model.learn(model.initial(pl.Series(["a"])), frame(times, [1.0, 2.0]))
    seen = {place: number for place, number in enumerate(models["n"][0]) if number}
    assert seen == {0: 2, 1: 1, 24: 1, 25: 1, 192: 1}
