"""Find the predictions that differ enough from the one last emitted for their key."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_jobs.jobs.anomaly_predictions.models.runs import Floats, Integers

NONE = -1
"""The label of a key before its first emitted prediction; the others are 0 and 1."""

Labels = NDArray[np.int8]


class Emitted(NamedTuple):
    """For each prediction, whether it is emitted and the label emitted before; for each key, label and score last emitted."""

    is_emitted: NDArray[np.bool_]
    label_before: Labels
    label: Labels
    score: Floats


def find_changes(
    labels: Labels, scores: Floats, starts: Integers, counts: Integers, label: Labels, score: Floats, min_change: float
) -> Emitted:
    """Emit predictions whose label differs from the last emitted one, or whose score differs by more than `min_change`.

    Predictions are ordered by key: `counts` predictions from `starts` on; `label` and `score` are each key's last emitted. A
    negative `min_change` emits every prediction.
    """
    is_emitted = np.zeros(len(labels), dtype=bool)
    label_before = np.full(len(labels), NONE, dtype=np.int8)
    label, score = label.copy(), score.copy()
    # Lists, since Python reads single values of an array slowly.
    all_labels, all_scores = labels.tolist(), scores.tolist()
    for run, (start, count) in enumerate(zip(starts.tolist(), counts.tolist(), strict=True)):
        last_label, last_score = label[run].item(), score[run].item()
        for place in range(start, start + count):
            if all_labels[place] != last_label or abs(all_scores[place] - last_score) > min_change:
                is_emitted[place], label_before[place] = True, last_label
                last_label, last_score = all_labels[place], all_scores[place]
        label[run], score[run] = last_label, last_score
    return Emitted(is_emitted, label_before, label, score)
