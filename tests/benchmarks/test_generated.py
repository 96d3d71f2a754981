"""Generated series: labelled where they were changed, the same for the same seed, and free of anomalies otherwise."""

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest

from benchmarks.generated import alarm_shares
from benchmarks.generated_anomalies import ANOMALIES
from benchmarks.generated_bases import BASES, DAY, moments
from benchmarks.generated_series import LEAD, labelled, labelled_corpus, unlabelled

EVERY_BASE = pytest.mark.parametrize("base", BASES)
EVERY_KIND = pytest.mark.parametrize("kind", ANOMALIES)


@EVERY_BASE
def test_a_base_gives_a_finite_number_for_every_moment(base):
    random = np.random.default_rng(1)
    times = moments(random, 14)
    values = BASES[base](random, times)
    assert values.shape == times.shape
    assert np.isfinite(values).all()
    assert values.std() > 0


@EVERY_KIND
def test_an_anomaly_changes_nothing_before_its_onset(kind):
    random = np.random.default_rng(2)
    times = np.arange(0.0, 14 * DAY, 300.0)
    values = BASES["daily_load"](random, times)
    changed_values = ANOMALIES[kind](random, times, values, 2000)
    assert (changed_values[:2000] == values[:2000]).all()
    assert (changed_values[2000:] != values[2000:]).any()


@EVERY_KIND
def test_each_onset_lies_in_a_window_of_its_own(kind):
    for seed in range(8):
        series = labelled("white_noise", kind, seed)
        windows = series.windows
        rows = series.readings.height
        assert all(0.25 * rows < first + LEAD < last < rows for first, last in windows)
        assert all(end < start for (_, end), (start, _) in pairwise(windows))
        assert sum(last - first + 1 for first, last in windows) <= 0.1 * rows


def test_a_seed_makes_the_same_series_again_and_another_one_makes_another():
    again = [labelled("price", "drift", seed).readings["value"] for seed in (1, 1, 2)]
    assert again[0].equals(again[1])
    assert not again[0].equals(again[2])


def test_the_corpus_has_every_base_with_every_kind():
    corpus = labelled_corpus([7])
    assert len({one.key for one in corpus}) == len(corpus) == len(BASES) * len(ANOMALIES)
    assert {one.category for one in corpus} == set(ANOMALIES)


def test_alarms_are_counted_in_shares_of_those_stated():
    calm = [unlabelled("white_noise", 3, days=70)]
    one, two = (alarm_shares("rarity", calm, stated)[0] for stated in (1.0, 2.0))
    assert 0 < one < 2
    assert 0 < two < 2
    with pytest.raises(ValueError, match="ewma does not count days"):
        alarm_shares("ewma", calm, 1.0)


def test_the_command_says_what_it_takes():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.generated", "--help"], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "--seeds" in done.stdout
