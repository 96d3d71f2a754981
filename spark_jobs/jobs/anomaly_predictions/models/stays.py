"""Score how long a value has not changed, which reveals a stuck sensor even if its value is usual."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_jobs.jobs.anomaly_predictions.models.runs import Floats, Integers, KeyRuns, at_number, before_each

NOTICED = 5
"""Number of consecutive events with one value from which a stay counts; fewer may be chance."""


class Stays(NamedTuple):
    """Stays of events learned one after the other; `previous` and `same` have one row per run.

    Attributes:
        values: the events' values.
        lengths: the number of consecutive events with the event's value, up to and including the event.
        previous: the last value learned before the run; NaN if none.
        same: the number of consecutive events with that value.
    """

    values: Floats
    lengths: Integers
    previous: Floats
    same: Integers


def learn(values: Floats, runs: KeyRuns, previous: Floats, same: Integers) -> Stays:
    """Learn events in the order of each key; before them, the last `same` events had the value `previous`."""
    is_new = values != before_each(values, previous, runs)
    row = np.arange(len(values))
    is_first = runs.rank == 0
    begun = np.maximum.accumulate(np.where(is_new | is_first, row, 0))
    goes_on = is_first[begun] & ~is_new[begun]
    return Stays(values, row - begun + 1 + np.where(goes_on, same[runs.run], 0), previous, same)


def surprises(stays: Stays, runs: KeyRuns, number: Integers, has_changed: NDArray[np.bool_]) -> Floats:
    """Return the length of each event's stay, by a model that has learned the first `number` of its run's events; 0 if short.

    It is also 0 if the metric has always had the same value (`has_changed` is false).
    """
    is_same = stays.values == at_number(stays.values, stays.previous, runs, number)
    length = np.where(is_same, at_number(stays.lengths, stays.same, runs, number) + 1, 1)
    return np.where(has_changed & (length >= NOTICED), length, 0).astype(np.float64)
