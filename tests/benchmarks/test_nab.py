import gzip
import json
from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

from benchmarks.nab import DEFAULT_MODEL, as_shipped, category_left_out, print_scores, read_corpus, score_corpus
from benchmarks.nab_scoring import PROFILES, STANDARD, ScoredSeries, best_result
from keyfold.keyed.job.building import build_job
from spark_jobs.jobs.anomaly_predictions.job import ANOMALY_PREDICTIONS
from spark_jobs.jobs.anomaly_predictions.models import MODELS

START = datetime(2014, 4, 1)  # noqa: DTZ001 - as the benchmark writes its times


def write(folder, name, values, windows):
    """A series beside those that the folder has, and its windows, given in rows."""
    moments = [START + timedelta(minutes=5 * row) for row in range(len(values))]
    lines = ["timestamp,value", *(f"{moment},{value}" for moment, value in zip(moments, values, strict=True))]
    path = folder / f"{name}.csv.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    known = folder / "windows.json"
    labels = json.loads(known.read_text()) if known.exists() else {}
    labels[f"{name}.csv"] = [[f"{moments[row]}.000000" for row in window] for window in windows]
    known.write_text(json.dumps(labels))


@pytest.fixture
def corpus_folder(tmp_path):
    values = 50 + np.random.default_rng(2).normal(0, 1, 1500)
    spiked = values.copy()
    spiked[1000] = 90
    write(tmp_path, "calm/one", values, [])
    write(tmp_path, "wild/two", spiked, [(990, 1100)])
    return tmp_path


def test_series_are_found_with_their_windows_as_rows(corpus_folder):
    one, two = read_corpus(corpus_folder)
    assert (one.key, one.category, one.windows) == ("calm/one", "calm", ())
    assert (two.key, two.category, two.windows) == ("wild/two", "wild", ((990, 1100),))
    assert two.readings["value"][1000] == 90


def test_the_job_scores_rows_as_the_model_does(corpus_folder):
    corpus = read_corpus(corpus_folder)
    model = MODELS[DEFAULT_MODEL]
    for series, scored in zip(corpus, score_corpus(DEFAULT_MODEL, corpus), strict=True):
        events = series.readings.rename({"timestamp": "event_time"})
        predicted, _ = model.predict_then_learn(model.initial(pl.Series([series.key])), events)
        assert (predicted["score"].to_numpy() == scored.scores).all()


def test_rows_out_of_order_get_their_own_scores(corpus_folder):
    corpus = read_corpus(corpus_folder)
    order = np.random.default_rng(1).permutation(corpus[1].readings.height)
    shuffled = type(corpus[1])("wild/two", corpus[1].readings[order], ())
    [as_they_lie], [mixed] = (score_corpus("ewma", [one]) for one in (corpus[1], shuffled))
    assert (as_they_lie.scores[order] == mixed.scores).all()


def test_the_planted_spike_is_found(corpus_folder):
    scored = score_corpus(DEFAULT_MODEL, read_corpus(corpus_folder))
    assert scored[1].scores[1000] > MODELS[DEFAULT_MODEL].threshold
    assert best_result(scored, STANDARD).normalised > 90


def test_every_model_and_profile_is_printed(corpus_folder, capsys):
    print_scores(read_corpus(corpus_folder), list(MODELS))
    printed = capsys.readouterr().out
    told = ("2 series, 3000 rows", *MODELS, *(one.name for one in PROFILES), "wild", "calm", "best", "as shipped")
    assert not [one for one in told if one not in printed]


def scored_spike(score):
    """A series with one labelled spike of this score among scores of one half."""
    scores = np.full(1500, 0.2)
    scores[995] = score
    return ScoredSeries(scores, [(990, 1100)])


def test_a_category_is_judged_at_the_threshold_of_the_others(corpus_folder):
    """The threshold that suits one category best is too high for the other, and the other way round too low."""
    low, high = read_corpus(corpus_folder)
    scored = [scored_spike(0.5), scored_spike(0.9)]
    assert best_result(scored, STANDARD).normalised > 95
    left_out = category_left_out([low, high], scored, STANDARD)
    assert left_out == pytest.approx(best_result(scored, STANDARD).normalised / 2, abs=1)


def test_the_default_model_is_the_one_that_the_job_ships():
    assert build_job(ANOMALY_PREDICTIONS).parameters["model"] == DEFAULT_MODEL


def test_the_default_model_keeps_the_score_that_its_page_tells(real_data):
    corpus = read_corpus(real_data / "nab")
    scored = score_corpus(DEFAULT_MODEL, corpus)
    assert best_result(scored, STANDARD).normalised > 79
    assert as_shipped(DEFAULT_MODEL, scored, STANDARD).normalised > 79
    assert category_left_out(corpus, scored, STANDARD) > 75
