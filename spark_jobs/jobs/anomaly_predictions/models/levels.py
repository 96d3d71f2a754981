"""Score how rare the level of a value is among all values of a metric.

Levels divide the range of values so far into equal steps, like a histogram. Changes smaller than a step are ignored, as in a
plot of the metric. At most `LEVELS` steps cover the range. When a value needs more, the step doubles and neighbouring levels
merge. So counts stay integers and do not depend on batch boundaries.

The surprise of a value is one over the probability of its level. Its logarithm is the value's code length, which gives the same
ranking. A value is no surprise if it is at least as likely as under a uniform distribution of levels.
"""

from typing import Any

import numpy as np

from spark_jobs.jobs.anomaly_predictions.models.protocol import Floats, Integers

LEVELS = 32
PRIOR = 1.0
"""Weight in events of the prior, which is uniform over the levels."""
_SLOTS = 2 * LEVELS + 5
"""The levels that the range can have on either side of the first value's level, and empty ones beyond."""
_FIRST_STEP = 0.0637
"""The first step as a share of the first change. It is not round, so that integers are not on the edges of levels."""
_ROUNDING = 1e-9
"""Changes smaller than this share of a value are rounding errors."""
_SMALLEST_STEP = 1e-140

UNTRAINED = {"level_origin": 0.0, "level_step": 0.0, "level_count": [0] * _SLOTS}
"""The columns of the model: the first value, which is an edge of a level; the width of a level, 0 while all values are equal; the
number of values of each level."""


class Levels:
    """The levels of one metric; `model` has the columns of `UNTRAINED`."""

    def __init__(self, model: dict[str, Any]) -> None:
        self._origin, self._step = model["level_origin"], model["level_step"]
        self._counts = np.array(model["level_count"], np.int64)

    def columns(self) -> dict[str, Any]:
        """Return the columns of the model."""
        return dict(zip(UNTRAINED, (self._origin, self._step, self._counts), strict=True))

    def surprises(self, values: Floats) -> Floats:
        """Compute the surprise of each value, without learning; 0 for none."""
        slots = self._slots(values)
        return _surprises([self._counts[slots + above] for above in (-1, 0, 1)], self._counts.sum())

    def learn(self, values: Floats) -> Floats:
        """Compute the surprise of each value by the values before it, and learn it."""
        found, start = np.zeros(len(values)), 0
        while start < len(values):
            slots = self._fitting(values[start:])
            end = start + max(1, len(slots))
            if len(slots):
                found[start:end] = self._surprises_in_turn(slots)
            else:
                # A value outside of the range is scored before the range grows.
                found[start:end] = self.surprises(values[start:end])
                self._widen(values[start:end])
                slots = self._slots(values[start:end])
            self._counts += np.bincount(slots, minlength=_SLOTS)
            start = end
        return found

    def _slots(self, values: Floats) -> Integers:
        """Return the place of each value's level in the counts."""
        with np.errstate(divide="ignore", invalid="ignore"):
            level = np.floor((values - self._origin) / self._step)
        level = np.clip(np.where(np.isnan(level), 0.0, level), -LEVELS - 1, LEVELS + 1)
        return level.astype(np.int64) + _SLOTS // 2

    def _fitting(self, values: Floats) -> Integers:
        """Return the slots of the first values, up to one for which the range needs more than `LEVELS` levels."""
        used = np.flatnonzero(self._counts)
        if not len(used):
            return used
        slots = self._slots(values)
        lowest = np.minimum(np.minimum.accumulate(slots), used[0])
        highest = np.maximum(np.maximum.accumulate(slots), used[-1])
        return slots[: np.searchsorted(highest - lowest, LEVELS)]

    def _surprises_in_turn(self, slots: Integers) -> Floats:
        rows, number = np.arange(len(slots)), len(slots)
        # A binary search in the sorted numbers of level and row counts the values of a level up to a row.
        inside = np.sort(slots * number + rows)

        def count(slots: Integers) -> Integers:
            known, first = self._counts[slots], slots * number
            return known + np.searchsorted(inside, first + rows) - np.searchsorted(inside, first)

        return _surprises([count(slots + above) for above in (-1, 0, 1)], self._counts.sum() + rows)

    def _widen(self, value: Floats) -> None:
        """Widen the levels until the value, the only one of the array, fits into the range."""
        if not self._counts.any():
            self._origin = value.item()
            return
        if self._step == 0.0:
            size = max(abs(value.item()), abs(self._origin))
            self._step = max(_FIRST_STEP * abs(value.item() - self._origin), _ROUNDING * size, _SMALLEST_STEP)
        while not len(self._fitting(value)):
            self._step *= 2.0
            merged = np.zeros_like(self._counts)
            np.add.at(merged, (np.arange(_SLOTS) - _SLOTS // 2) // 2 + _SLOTS // 2, self._counts)
            self._counts = merged


def _surprises(counts: list[Integers], total: Integers | int) -> Floats:
    below, at, above = counts
    # Neighbouring levels count half, so that a value near the edge of a frequent level is not rare.
    probability = ((below + 2 * at + above) / 4 + PRIOR / LEVELS) / (total + PRIOR)
    surprise = 1.0 / probability
    return np.where(surprise > LEVELS, surprise, 0.0)
