"""Exponentially decaying sums over many keys at once, the same to the last bit however the events are split."""

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from spark_jobs.models.runs import Integers

Floats = NDArray[np.float64]

_STEPS_A_FILTER = 6
"""How many steps for all runs take as long as starting a filter for one."""


def decaying_sums(inputs: Floats, starts: Integers, counts: Integers, before: Floats, keep: float) -> Floats:
    """After each input of a run the sum so far: `sum = keep * sum + input`, from the run's `before` on.

    Runs lie from `starts`, `counts` long. One step takes the next input of every run that has one; what is then left of
    the longest runs, few enough, goes through a filter a run. Both round in the same way: the filter multiplies inputs by one and
    adds zero besides, so that even a fused multiplication changes nothing.
    """
    after = np.empty(len(inputs))
    order = np.argsort(-counts, kind="stable")
    starts, counts, sums = starts[order], counts[order], before[order]
    longest = int(counts[0]) if len(counts) else 0
    going = np.searchsorted(-counts, -np.arange(longest + 1))
    steps = int(np.argmin(np.arange(longest + 1) + _STEPS_A_FILTER * going))
    for step, runs in enumerate(going[:steps].tolist()):
        places = starts[:runs] + step
        sums[:runs] = inputs[places] + keep * sums[:runs]
        after[places] = sums[:runs]
    for run in range(int(going[steps])):
        part = slice(starts[run] + steps, starts[run] + counts[run])
        after[part] = lfilter([1.0], [1.0, -keep], inputs[part], zi=[keep * sums[run]])[0]
    return after


def total_weights(share: float) -> Floats:
    """By number of events, what the weights of a decaying mean add up to, until they add up to one for good.

    A mean in which each event has `share` of the weight and leaves the rest to those before it lacks the weight of the
    events before the first: divide by this (Adam's correction of bias, Kingma and Ba 2015).
    """
    weights = [0.0]
    while len(weights) < 2 or weights[-1] != weights[-2]:
        weights.append(share + (1.0 - share) * weights[-1])
    return np.array(weights)


def of_number(weights: Floats, number: Integers) -> Floats:
    """The total weight of a number of events."""
    return weights[np.minimum(number, len(weights) - 1)]
