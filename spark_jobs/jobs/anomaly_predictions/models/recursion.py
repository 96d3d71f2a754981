"""Compute exponentially decaying sums over many keys at once; results do not depend on batch boundaries, bit by bit."""

from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from spark_jobs.jobs.anomaly_predictions.models.runs import Integers

Floats = NDArray[np.float64]


def decaying_sums(inputs: Floats, starts: Integers, before: Floats, keep: float) -> Floats:
    """Return the sum after each input of a run: `sum = keep * sum + input`, starting with the run's `before`.

    Run i begins at row `starts[i]`, and ends where the next one begins.
    """
    values, factors = inputs.copy(), np.full(len(inputs), keep)
    # A run's first sum contains `before`, and nothing of the run before it.
    values[starts] += keep * before
    factors[starts] = 0.0
    sums = accumulate(zip(values.tolist(), factors.tolist(), strict=True), _next_sum, initial=0.0)
    next(sums)
    return np.fromiter(sums, np.float64, len(inputs))


def _next_sum(total: float, event: tuple[float, float]) -> float:
    value, factor = event
    # A sum that is not finite would otherwise make the next run's NaN.
    return value + factor * total if factor else value


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
