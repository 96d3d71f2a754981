"""The scoring of the Numenta Anomaly Benchmark (NAB), for any number of series at once.

A detector gives every row of a series a score; a threshold, one for all series, makes alarms of scores. NAB rewards the
first alarm in each labelled window, the more the earlier it comes, and charges every alarm outside of windows and every
window without an alarm. The first part of each series, the probationary period, does not count.

Written from the description of the benchmark (Lavin and Ahmad, 2015, arXiv:1510.03336) and checked against the rules of
its reference implementation, as of NAB 1.1:

- a row inside a window is worth the scaled sigmoid of its place, from almost 1 at the window's first row to almost 0 at
  its last, divided by the sigmoid's value at the first row, so that a perfect alarm is worth exactly 1;
- a row outside is worth the same sigmoid of its distance from the last window's end, in widths of that window: just
  behind a window an alarm costs little, from three widths on, and before the first window, it costs 1;
- a window that lies in the probationary period altogether does not count; of one that begins there, the later rows do.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

PROBATION_SHARE = 0.15
LONGEST_PROBATION = 750
STEEPNESS = 5.0
FAR_BEHIND = 3.0
"""Widths of a window behind it from which on a false alarm costs the full price."""

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Profile:
    """What an application makes of right and wrong alarms. True negatives are worth nothing in any of them."""

    name: str
    true_positive: float
    false_positive: float
    false_negative: float


STANDARD = Profile("standard", true_positive=1.0, false_positive=0.11, false_negative=1.0)
LOW_FALSE_POSITIVES = Profile("reward_low_FP_rate", true_positive=1.0, false_positive=0.22, false_negative=1.0)
LOW_FALSE_NEGATIVES = Profile("reward_low_FN_rate", true_positive=1.0, false_positive=0.11, false_negative=2.0)
PROFILES = (STANDARD, LOW_FALSE_POSITIVES, LOW_FALSE_NEGATIVES)


@dataclass(frozen=True)
class ScoredSeries:
    """A detector's scores of one series, a row each in time order, and the labelled windows of that series.

    Attributes:
        scores: the higher, the more anomalous; NaN never alarms.
        windows: first and last row of each window, in time order; they do not overlap.
    """

    scores: Floats
    windows: Sequence[tuple[int, int]]


class Result(NamedTuple):
    """What a detector reached: the threshold, the raw score at it, and the score from 0 (nothing) to 100 (perfect)."""

    threshold: float
    raw: float
    normalised: float


def best_result(series: Sequence[ScoredSeries], profile: Profile) -> Result:
    """Score a detector at the one threshold over all series that suits the profile best."""
    thresholds, raws = sweep(series, profile)
    best = int(np.argmax(raws))
    return Result(float(thresholds[best]), float(raws[best]), normalise(float(raws[best]), series, profile))


def result_at(threshold: float, series: Sequence[ScoredSeries], profile: Profile) -> Result:
    """Score a detector at a given threshold: a row alarms if its score is at least that."""
    thresholds, raws = sweep(series, profile)
    # Thresholds fall: the last one that is not below the given one has the same alarms.
    place = int(np.searchsorted(-thresholds, -threshold, side="right")) - 1
    return Result(threshold, float(raws[place]), normalise(float(raws[place]), series, profile))


def sweep(series: Sequence[ScoredSeries], profile: Profile) -> tuple[Floats, Floats]:
    """Raw score, summed over the series, at every threshold that makes a difference, falling from infinity.

    Each row in order of falling score adds what it changes: outside of windows its price, inside a window what it is
    worth above the best row of that window so far (the first of them, since worth falls in time).
    """
    rows = [row_values(len(one.scores), one.windows) for one in series]
    counted = [part.counts & ~np.isnan(one.scores) for part, one in zip(rows, series, strict=True)]
    scores = np.concatenate([np.empty(0), *(one.scores[keep] for one, keep in zip(series, counted, strict=True))])
    worth = np.concatenate([np.empty(0), *(part.worth[keep] for part, keep in zip(rows, counted, strict=True))])
    first_window = np.cumsum([0, *(len(one.windows) for one in series)])
    window = np.concatenate(
        [
            np.empty(0, dtype=np.int64),
            *(
                np.where(part.window[keep] >= 0, part.window[keep] + before, -1)
                for part, keep, before in zip(rows, counted, first_window[:-1], strict=True)
            ),
        ]
    )
    changes = np.where(window < 0, profile.false_positive * worth, 0.0)
    inside = np.flatnonzero(window >= 0)
    inside = inside[np.lexsort((-scores[inside], window[inside]))]
    changes[inside] = _gains(window[inside], profile.true_positive * worth[inside], -profile.false_negative)
    order = np.argsort(-scores, kind="stable")
    falling = scores[order]
    totals = -profile.false_negative * _count_windows(series) + np.cumsum(changes[order])
    is_last_of_its_score = np.append(falling[1:] != falling[:-1], True)[: len(falling)]
    nothing = -profile.false_negative * _count_windows(series)
    return (
        np.concatenate([[np.inf], falling[is_last_of_its_score]]),
        np.concatenate([[nothing], totals[is_last_of_its_score]]),
    )


class RowValues(NamedTuple):
    """Of each row of a series: what an alarm there is worth, in which window it lies (-1: none), whether it counts."""

    worth: Floats
    window: Integers
    counts: NDArray[np.bool_]


def row_values(length: int, windows: Sequence[tuple[int, int]]) -> RowValues:
    """What an alarm at each row of a series is worth, before the weights of a profile."""
    worth = np.full(length, -1.0)
    window = np.full(length, -1, dtype=np.int64)
    row = np.arange(length)
    for number, (first, last) in enumerate(windows):
        width = last - first + 1
        behind = row[last + 1 :] - last
        # A window of one row has no width to measure by: whatever is behind it is far behind.
        relative = behind / (width - 1) if width > 1 else np.full(len(behind), FAR_BEHIND)
        worth[last + 1 :] = np.where(relative >= FAR_BEHIND, -1.0, scaled_sigmoid(relative))
        inside = slice(first, last + 1)
        worth[inside] = scaled_sigmoid((row[inside] - last - 1) / width) / scaled_sigmoid(np.array(-1.0))
        window[inside] = number
    return RowValues(worth, window, row >= probationary_rows(length))


def probationary_rows(length: int) -> int:
    """How many rows at the beginning of a series of this length are for learning only."""
    return min(int(PROBATION_SHARE * length), LONGEST_PROBATION)


def scaled_sigmoid(relative: Floats) -> Floats:
    """From 1 far before the end of a window over 0 at its end to -1 far behind it."""
    # 2 / (1 + exp(5 x)) - 1, as the benchmark writes it, is a hyperbolic tangent.
    return np.tanh(-STEEPNESS / 2.0 * relative)


def _gains(window: Integers, worth: Floats, start: float) -> Floats:
    """By how much each row raises the best worth of its window so far; rows lie window by window."""
    # Lifting each window above the one before makes one running maximum out of many.
    lift = window * 10.0 * (1.0 + abs(start) + float(np.max(np.abs(worth), initial=0.0)))
    best = np.maximum.accumulate(np.maximum(worth, start) + lift) - lift
    is_first = np.append(True, window[1:] != window[:-1])[: len(window)]
    before = np.where(is_first, start, np.roll(best, 1))
    return np.subtract(best, before, dtype=np.float64)


def _count_windows(series: Sequence[ScoredSeries]) -> int:
    """How many windows have a row that counts."""
    return sum(last >= probationary_rows(len(one.scores)) for one in series for _, last in one.windows)


def normalise(raw: float, series: Sequence[ScoredSeries], profile: Profile) -> float:
    """Make the score of a raw one: from 0 for a detector that never alarms to 100 for one that alarms at the first row of each window only."""
    windows = _count_windows(series)
    nothing, perfect = -profile.false_negative * windows, profile.true_positive * windows
    return 100.0 * (raw - nothing) / (perfect - nothing) if windows else float("nan")
