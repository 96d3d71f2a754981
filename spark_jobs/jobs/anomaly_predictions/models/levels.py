"""Score how rare the level of a value is among all values of a metric.

Levels divide the range of values so far into equal steps, like a histogram. Changes smaller than a step are ignored, as in a
plot of the metric. At most `LEVELS` steps cover the range. When a value needs more, the step doubles and neighbouring levels
merge. So counts stay integers and do not depend on batch boundaries.

The surprise of a value is one over the probability of its level. Its logarithm is the value's code length, which gives the same
ranking. A value is no surprise if it is at least as likely as under a uniform distribution of levels.
"""

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from spark_jobs.jobs.anomaly_predictions.models.protocol import Floats, Integers, flat, lists

Booleans = NDArray[np.bool_]

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
    """The levels of metrics, one per row of `models`, which has the columns of `UNTRAINED`."""

    def __init__(self, models: pl.DataFrame) -> None:
        self._origin, self._step = (models[name].to_numpy().copy() for name in ("level_origin", "level_step"))
        self._counts = flat(models["level_count"])[0].reshape(-1, _SLOTS).copy()

    def columns(self) -> dict[str, Any]:
        """Return the columns of the models."""
        counts = lists(self._counts.ravel(), np.full(len(self._counts), _SLOTS))
        return dict(zip(UNTRAINED, (self._origin, self._step, counts), strict=True))

    def surprises(self, keys: Integers, values: Floats) -> Floats:
        """Compute the surprise of each value in the model at row `keys`, without learning; 0 for none."""
        slots = self._slots(keys, values)
        return _surprises([self._counts[keys, slots + above] for above in (-1, 0, 1)], self._counts.sum(axis=1)[keys])

    def learn(self, keys: Integers, values: Floats) -> Floats:
        """Compute the surprise of each value by the key's values before it, and learn it; `keys` ascend."""
        found, rows = np.zeros(len(values)), np.arange(len(values))
        while len(rows):
            slots = self._slots(keys[rows], values[rows])
            fits = self._fits(keys[rows], slots)
            known, slots, rows = rows[fits], slots[fits], rows[~fits]
            found[known] = self._surprises_in_turn(keys[known], slots)
            np.add.at(self._counts, (keys[known], slots), 1)
            # A value outside of its key's range is scored before the range grows, and the key's later values after it.
            first = np.unique(keys[rows], return_index=True)[1]
            wide, rows = rows[first], np.delete(rows, first)
            found[wide] = self.surprises(keys[wide], values[wide])
            for key, value in zip(keys[wide].tolist(), values[wide].tolist(), strict=True):
                self._widen(key, value)
            np.add.at(self._counts, (keys[wide], self._slots(keys[wide], values[wide])), 1)
        return found

    def _slots(self, keys: Integers, values: Floats) -> Integers:
        """Return the place of each value's level in the counts."""
        with np.errstate(divide="ignore", invalid="ignore"):
            level = np.floor((values - self._origin[keys]) / self._step[keys])
        level = np.clip(np.where(np.isnan(level), 0.0, level), -LEVELS - 1, LEVELS + 1)
        return level.astype(np.int64) + _SLOTS // 2

    def _fits(self, keys: Integers, slots: Integers) -> Booleans:
        """Return whether the values of the key up to this one need no more than `LEVELS` levels."""
        used = self._counts > 0
        lowest, highest = used.argmax(axis=1)[keys], _SLOTS - 1 - used[:, ::-1].argmax(axis=1)[keys]
        # Keys ascend: with their slots this far apart, the extremes of one key do not reach the next.
        apart = 2 * _SLOTS * keys
        lowest = np.minimum.accumulate(np.minimum(slots, lowest) - apart) + apart
        highest = np.maximum.accumulate(np.maximum(slots, highest) + apart) - apart
        return (self._counts.sum(axis=1)[keys] > 0) & (highest - lowest < LEVELS)

    def _surprises_in_turn(self, keys: Integers, slots: Integers) -> Floats:
        number, rows, places = len(slots), np.arange(len(slots)), _SLOTS * keys + slots
        # A binary search in the sorted numbers of level and row counts the values of a level up to a row.
        inside = np.sort(places * number + rows)

        def count(places: Integers) -> Integers:
            known, first = self._counts.ravel()[places], places * number
            return known + np.searchsorted(inside, first + rows) - np.searchsorted(inside, first)

        total = self._counts.sum(axis=1)[keys] + rows - np.searchsorted(keys, keys)
        return _surprises([count(places + above) for above in (-1, 0, 1)], total)

    def _widen(self, key: int, value: float) -> None:
        """Widen the levels until the value fits into the range."""
        counts = self._counts[key]
        if not counts.any():
            self._origin[key] = value
            return
        if self._step[key] == 0.0:
            origin = self._origin[key]
            size = max(abs(value), abs(origin))
            self._step[key] = max(_FIRST_STEP * abs(value - origin), _ROUNDING * size, _SMALLEST_STEP)
        of_value = np.array([key]), np.array([value])
        while np.ptp(np.append(np.flatnonzero(counts), self._slots(*of_value))) >= LEVELS:
            self._step[key] *= 2.0
            merged = np.zeros_like(counts)
            np.add.at(merged, (np.arange(_SLOTS) - _SLOTS // 2) // 2 + _SLOTS // 2, counts)
            counts[:] = merged


def _surprises(counts: list[Integers], total: Integers) -> Floats:
    below, at, above = counts
    # Neighbouring levels count half, so that a value near the edge of a frequent level is not rare.
    probability = ((below + 2 * at + above) / 4 + PRIOR / LEVELS) / (total + PRIOR)
    surprise = 1.0 / probability
    return np.where(surprise > LEVELS, surprise, 0.0)
