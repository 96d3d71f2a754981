"""Which predictions are emitted, against a loop over them."""

import numpy as np

from spark_jobs.jobs.anomaly_predictions.changes import NONE, emit_all, find_changes


def one_by_one(predictions, label, score, min_change):
    """Whether each prediction of one key is emitted and the label before it; the last label and score."""
    emitted, before = [], []
    for new_label, new_score in predictions:
        changes = label in (NONE, 1 - new_label) or abs(new_score - score) > min_change
        emitted.append(changes)
        before.append(label)
        if changes:
            label, score = new_label, new_score
    return emitted, before, label, score


def walk(keys, lasts, min_change, all_of_them=False):
    """Run `find_changes` (or `emit_all`) over keys, each a list of (label, score); lasts are (label, score)."""
    counts = np.array([len(key) for key in keys], dtype=np.int64)
    starts = np.cumsum(counts) - counts
    labels = np.array([label for key in keys for label, _ in key], dtype=np.int8)
    scores = np.array([score for key in keys for _, score in key])
    last_labels = np.array([label for label, _ in lasts], dtype=np.int8)
    if all_of_them:
        return emit_all(labels, scores, starts, counts, last_labels)
    return find_changes(labels, scores, starts, counts, last_labels, np.array([s for _, s in lasts]), min_change)


def test_a_step_of_exactly_the_least_change_is_not_told():
    assert walk([[(0, 0.25)]], [(0, 0.0)], 0.25).is_emitted.tolist() == [False]


def test_one_long_key_among_short_ones_is_told_as_one_by_one():
    random = np.random.default_rng(5)
    calm = [(0, 0.1)] * 3000
    restless = [(int(score > 0.5), score) for score in random.random(500).tolist()]
    keys = [[*restless, *calm, *restless], [(0, 0.5)] * 3, calm]
    emitted = walk(keys, [(NONE, float("nan"))] * 3, 0.2)
    wanted = [flag for key in keys for flag in one_by_one(key, NONE, float("nan"), 0.2)[0]]
    assert emitted.is_emitted.tolist() == wanted


def test_all_means_all_with_the_label_before_each():
    emitted = walk([[(0, 0.1), (1, 0.9)], [(1, 0.8)]], [(NONE, float("nan")), (0, 0.2)], None, all_of_them=True)
    assert emitted.is_emitted.all()
    assert emitted.label_before.tolist() == [NONE, 0, 0]
    assert (emitted.label.tolist(), emitted.score.tolist()) == ([1, 1], [0.9, 0.8])
