"""Compute exponentially decaying sums over many keys at once; results do not depend on batch boundaries, bit by bit."""

from itertools import accumulate, islice

import numpy as np
from numpy.typing import NDArray

from spark_jobs.jobs.anomaly_predictions.models.runs import Integers

Floats = NDArray[np.float64]

_EVENTS_A_STEP = 25
"""Cost of one vectorized step over all runs, in events summed one by one."""


def decaying_sums(inputs: Floats, starts: Integers, counts: Integers, before: Floats, keep: float) -> Floats:
    """Return the sum after each input of a run: `sum = keep * sum + input`, starting with the run's `before`.

    Run i has `counts[i]` inputs from row `starts[i]`. A vectorized step adds the next input of every run that has one. When too
    few runs are left for a step to be worth it, the rest of the longest runs is summed one by one. Both round twice per input,
    so the results are the same bits.
    """
    after = np.empty(len(inputs))
    order = np.argsort(-counts, kind="stable")
    starts, counts, sums = starts[order], counts[order], before[order]
    longest = int(counts[0]) if len(counts) else 0
    # The number of runs with an input at each step; runs are sorted by descending length.
    going = np.searchsorted(-counts, -np.arange(longest + 1))
    left = len(inputs) - (np.cumsum(going) - going)
    # The number of steps with the lowest cost, given the inputs left after each.
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
    """Return the total weight of a decaying mean by number of events, up to the number from which it is constant.

    The newest event has the weight `share`, and earlier ones share the rest. At the start, the weights add up to less than one,
    so divide the mean by this total (the bias correction of Adam, Kingma and Ba 2015).
    """
    weights = [0.0]
    while len(weights) < 2 or weights[-1] != weights[-2]:
        weights.append(share + (1.0 - share) * weights[-1])
    return np.array(weights)


def of_number(weights: Floats, number: Integers) -> Floats:
    """Return the total weight for each number of events."""
    return weights[np.minimum(number, len(weights) - 1)]
