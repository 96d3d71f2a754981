"""Exponentially decaying sums over many keys at once, the same to the last bit however the events are split."""

from itertools import accumulate, islice

import numpy as np
from numpy.typing import NDArray

from spark_jobs.jobs.anomaly_predictions.models.runs import Integers

Floats = NDArray[np.float64]

_EVENTS_A_STEP = 25
"""How many events are summed one by one in the time of one step for all runs."""


def decaying_sums(inputs: Floats, starts: Integers, counts: Integers, before: Floats, keep: float) -> Floats:
    """After each input of a run the sum so far: `sum = keep * sum + input`, from the run's `before` on.

    Runs lie from `starts`, `counts` long. One step takes the next input of every run that has one. What is then left of
    the longest runs, where they are too few for a step to be worth it, is summed one by one, by the same two roundings.
    """
    after = np.empty(len(inputs))
    order = np.argsort(-counts, kind="stable")
    starts, counts, sums = starts[order], counts[order], before[order]
    longest = int(counts[0]) if len(counts) else 0
    going = np.searchsorted(-counts, -np.arange(longest + 1))
    left = len(inputs) - (np.cumsum(going) - going)
    steps = int(np.argmin(_EVENTS_A_STEP * np.arange(longest + 1) + left))
    for step, runs in enumerate(going[:steps].tolist()):
        places = starts[:runs] + step
        sums[:runs] = inputs[places] + keep * sums[:runs]
        after[places] = sums[:runs]
    for run in range(int(going[steps])):
        part = slice(starts[run] + steps, starts[run] + counts[run])
        totals = accumulate(inputs[part].tolist(), lambda total, value: value + keep * total, initial=sums[run].item())
        after[part] = np.fromiter(islice(totals, 1, None), np.float64, counts[run] - steps)
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
