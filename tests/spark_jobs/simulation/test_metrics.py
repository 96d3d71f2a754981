"""The planted anomalies are where the summary says, and keys stay the same from call to call."""

from collections import Counter
from datetime import timedelta
from statistics import mean, median

import numpy as np
import pytest

from spark_jobs.simulation import simulate
from tests.spark_jobs.simulation.conftest import START


def test_a_first_call_writes_a_csv_file_a_series_and_a_further_one_ndjson_with_keys(calls):
    first, further = calls("metrics")
    whole = [path for path in first.paths if "cut-short" not in path.name]
    keys = [str(path.relative_to(first.landing)).removesuffix(".csv.gz") for path in whole]
    assert sorted(keys) == first.found.keys
    assert all("/" in key for key in keys)
    assert {"".join(path.suffixes) for path in further.paths} == {".ndjson.gz"}
    assert further.found.keys == first.found.keys, "the same series go on"


def test_each_planted_anomaly_stands_out_from_its_series_in_its_own_way(calls):
    call, _ = calls("metrics")
    kinds = Counter(anomaly.kind for anomaly in call.summary.planted)
    assert set(kinds) == {"spike", "level shift", "flat line", "frequency change"}
    for anomaly in call.summary.planted:
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
    troubled = {anomaly.key for anomaly in call.summary.planted}
    assert len(troubled) == len(call.summary.planted) == 6


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
