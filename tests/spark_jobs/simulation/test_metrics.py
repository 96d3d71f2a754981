"""The planted anomalies are where the summary says, and keys stay the same from call to call."""

from collections import Counter
from datetime import timedelta
from itertools import pairwise
from statistics import mean, median

import numpy as np
import polars as pl
import pytest

from keyfold.times import micros
from spark_jobs.simulation import simulate
from spark_jobs.simulation.metrics import STEP, metrics_table
from spark_jobs.streams import METRICS
from tests.spark_jobs.simulation.conftest import START


def test_a_first_call_writes_a_csv_file_a_series_and_a_further_one_ndjson_with_keys(calls):
    first, further = calls("metrics")
    whole = [path for path in first.paths if "cut-short" not in path.name]
    keys = [str(path.relative_to(first.landing)).removesuffix(".csv.gz") for path in whole]
    assert sorted(keys) == first.found.keys
    assert all("/" in key for key in keys)
    assert {"".join(path.suffixes) for path in further.paths} == {".ndjson.gz"}
    assert further.found.keys == first.found.keys, "the same series go on"


def test_every_series_has_a_sample_every_five_minutes(calls):
    for call in calls("metrics"):
        assert call.summary.series == len(call.found.keys) == 12
        for key in call.found.keys:
            times = [event["time"] for event in call.found.of(key)]
            assert {after - before for before, after in pairwise(times)} == {timedelta(minutes=5)}


def test_each_planted_anomaly_stands_out_from_its_series_in_its_own_way(calls):
    call, _ = calls("metrics")
    kinds = Counter(anomaly.kind for anomaly in call.summary.anomalies)
    assert set(kinds) == {"spike", "level shift", "flat line", "frequency change"}
    for anomaly in call.summary.anomalies:
        samples = call.found.of(anomaly.key)
        inside = [one["value"] for one in samples if anomaly.start <= one["time"] <= anomaly.end]
        hour = timedelta(hours=1)
        around = [
            one["value"]
            for one in samples
            if anomaly.start - hour <= one["time"] < anomaly.start or anomaly.end < one["time"] <= anomaly.end + hour
        ]
        before = [one["value"] for one in samples if one["time"] < anomaly.start]
        assert anomaly.start > START + timedelta(hours=30), "there is time to learn"
        if anomaly.kind == "spike":
            assert 1 <= len(inside) <= 3
            assert min(inside) > 1.4 * max(around)
        elif anomaly.kind == "level shift":
            assert mean(inside) > 1.25 * median(around)
        elif anomaly.kind == "flat line":
            assert len(set(inside)) == 1 < len(inside)
        else:
            assert pace(inside) == pytest.approx(3 * pace(before[-len(inside) :]), rel=0.2)
            assert max(inside) < 1.15 * max(around), "it goes faster, and not further"
    troubled = {anomaly.key for anomaly in call.summary.anomalies}
    assert len(troubled) == len(call.summary.anomalies) == 6


def test_series_without_an_anomaly_have_none():
    times = np.arange(864) * STEP + micros(START)
    table, anomalies = metrics_table(np.random.default_rng(3), 200, times)
    assert table.schema == pl.DataFrame(METRICS.schema.empty_table()).schema
    calm = table.filter(~pl.col("key").is_in([anomaly.key for anomaly in anomalies]))
    assert calm["key"].n_unique() == 100
    steps = calm.select((pl.col("value").diff() / pl.col("value").shift()).over("key").abs().max()).item()
    assert steps < 0.4
    repeats = calm.select((pl.col("value").diff() == 0).over("key").rolling_sum(4).max()).item()
    assert repeats < 4


def test_a_series_has_the_same_course_in_every_call():
    times = np.arange(864) * STEP + micros(START)
    one, planted = metrics_table(np.random.default_rng(3), 12, times)
    other, more = metrics_table(np.random.default_rng(4), 12, times)
    calm = set(one["key"]) - {anomaly.key for anomaly in (*planted, *more)}
    both = one.join(other, on=["key", "timestamp"]).filter(pl.col("key").is_in(list(calm)))
    assert calm
    assert both.select((pl.col("value") / pl.col("value_right") - 1).abs().max()).item() < 0.2


def test_the_end_of_a_first_call_is_found_from_the_folder(tmp_path):
    first = simulate("metrics", tmp_path, size=3)
    assert simulate("metrics", tmp_path, size=3).start == first.end


def pace(values: list[float]) -> float:
    """The strongest frequency among those of less than two hours a period, in cycles a sample."""
    steps = np.diff(values, prepend=values[0])
    strength = np.abs(np.fft.rfft(steps - steps.mean(), n=16 * len(steps)))
    frequencies = np.fft.rfftfreq(16 * len(steps))
    strength[frequencies < 1 / 24] = 0
    return float(frequencies[strength.argmax()])
