"""Find the predictions that differ enough from the one last emitted for their key."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_jobs.jobs.anomaly_predictions.models.runs import Floats, Integers

NONE = -1
"""The label of a key before its first emitted prediction; the others are 0 and 1."""

Labels = NDArray[np.int8]

_STEPS_A_WALK = 10
"""Number of steps for all keys that take as long as processing one key by itself."""
_SHORTEST_LOOK, _LONGEST_LOOK = 64, 65_536


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

    Predictions are ordered by key: `counts` predictions from `starts` on; `label` and `score` are each key's last emitted. One
    step processes the next prediction of every key; the rest of the longest keys is processed key by key.
    """
    is_emitted = np.zeros(len(labels), dtype=bool)
    label_before = np.full(len(labels), NONE, dtype=np.int8)
    order = np.argsort(-counts, kind="stable")
    starts, counts, label, score = starts[order], counts[order], label[order], score[order]
    longest = int(counts[0]) if len(counts) else 0
    # The number of keys with a prediction at each step; keys are sorted by descending length.
    going = np.searchsorted(-counts, -np.arange(longest + 1))
    # The number of steps with the lowest cost, with the keys that are left after them.
    steps = int(np.argmin(np.arange(longest + 1) + _STEPS_A_WALK * going))
    for step, runs in enumerate(going[:steps].tolist()):
        places = starts[:runs] + step
        differs = _differs(labels[places], scores[places], label[:runs], score[:runs], min_change)
        changed = np.flatnonzero(differs)
        if len(changed):
            places = places[changed]
            is_emitted[places] = True
            label_before[places] = label[changed]
            label[changed], score[changed] = labels[places], scores[places]
    for run in range(int(going[steps])):
        # Parts double while nothing changes, so that a long unchanged series takes few comparisons.
        place, end, look = int(starts[run]) + steps, int(starts[run] + counts[run]), _SHORTEST_LOOK
        while place < end:
            part = slice(place, min(place + look, end))
            differs = _differs(labels[part], scores[part], label[run], score[run], min_change)
            change = int(differs.argmax())
            if not differs[change]:
                place, look = place + look, min(2 * look, _LONGEST_LOOK)
                continue
            place += change
            is_emitted[place], label_before[place] = True, label[run]
            label[run], score[run] = labels[place], scores[place]
            place, look = place + 1, _SHORTEST_LOOK
    # To the order of the arguments.
    back = np.argsort(order)
    return Emitted(is_emitted, label_before, label[back], score[back])


def emit_all(labels: Labels, scores: Floats, starts: Integers, counts: Integers, label: Labels) -> Emitted:
    """Emit every prediction."""
    label_before = np.roll(labels, 1)
    label_before[starts] = label
    ends = starts + counts - 1
    return Emitted(np.ones(len(labels), dtype=bool), label_before, labels[ends], scores[ends])


def _differs(labels: Labels, scores: Floats, label: Labels, score: Floats, min_change: float) -> NDArray[np.bool_]:
    return (labels != label) | (np.abs(scores - score) > min_change)
