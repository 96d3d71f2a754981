"""How long a value has stayed the same: what a sensor that is stuck gives away, though its value is usual."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_jobs.jobs.anomaly_predictions.models.runs import Floats, Integers, KeyRuns, at_number, before_each

NOTICED = 5
"""Events in a row with one value that are noticed: fewer are chance."""


class Stays(NamedTuple):
    """Stays of events learned one after the other; of `previous` and `same` a row a run.

    Attributes:
        values: of the events.
        lengths: how many events in a row had the event's value, itself the last.
        previous: the value learned before the run; NaN for none.
        same: how many events in a row had that value.
    """

    values: Floats
    lengths: Integers
    previous: Floats
    same: Integers


def learn(values: Floats, runs: KeyRuns, previous: Floats, same: Integers) -> Stays:
    """Learn events, each after those of its key before it; `same` events in a row had the value `previous` before."""
    is_new = values != before_each(values, previous, runs)
    row = np.arange(len(values))
    is_first = runs.rank == 0
    begun = np.maximum.accumulate(np.where(is_new | is_first, row, 0))
    goes_on = is_first[begun] & ~is_new[begun]
    return Stays(values, row - begun + 1 + np.where(goes_on, same[runs.run], 0), previous, same)


def surprises(stays: Stays, runs: KeyRuns, number: Integers, has_changed: NDArray[np.bool_]) -> Floats:
    """How long each value has stayed for a model that has learned the first `number` of its run's events; 0 for short.

    A metric that has had but one value (`has_changed` is false) surprises nobody by having it again.
    """
    is_same = stays.values == at_number(stays.values, stays.previous, runs, number)
    length = np.where(is_same, at_number(stays.lengths, stays.same, runs, number) + 1, 1)
    return np.where(has_changed & (length >= NOTICED), length, 0).astype(np.float64)
