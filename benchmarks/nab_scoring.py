"""The scoring of the Numenta Anomaly Benchmark (NAB), for any number of series at once.

A detector gives each row of a series a score. Scores above a threshold, which is the same for all series, are alarms. NAB
rewards the first alarm in each labelled window, more for earlier ones, and penalizes alarms outside of windows and windows
without an alarm. The first part of each series, the probationary period, does not count.

Written from the description of the benchmark (Lavin and Ahmad, 2015, arXiv:1510.03336) and checked against the rules of
its reference implementation, as of NAB 1.1:

- The value of a row inside a window is the scaled sigmoid of its position, from almost 1 at the first row to almost 0 at the
  last, divided by the sigmoid's value at the first row, so that a perfect alarm has the value 1.
- The value of a row outside is the same sigmoid of its distance from the end of the previous window, in widths of that window:
  an alarm just after a window costs little; after three widths, and before the first window, it costs 1.
- A window inside the probationary period does not count. Of a window that begins in it, the later rows count.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

PROBATION_SHARE = 0.15
LONGEST_PROBATION = 750
STEEPNESS = 5.0
FAR_BEHIND = 3.0
"""Distance after a window, in its widths, from which on a false alarm costs 1."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Profile:
    """The weights that an application gives to wrong alarms and missed windows. A right alarm has the weight 1, silence none."""

    name: str
    false_positive: float
    false_negative: float


STANDARD = Profile("standard", false_positive=0.11, false_negative=1.0)
PROFILES = (STANDARD, Profile("reward_low_FP_rate", 0.22, 1.0), Profile("reward_low_FN_rate", 0.11, 2.0))


@dataclass(frozen=True)
class ScoredSeries:
    """A detector's scores of a series, one per row in time order, and the series' labelled windows.

    Attributes:
        scores: higher is more anomalous; NaN is never an alarm.
        windows: first and last row of each window, in time order, without overlaps.
    """

    scores: Floats
    windows: Sequence[tuple[int, int]]


class Result(NamedTuple):
    """A detector's result: the threshold, the raw score at it, and the score from 0 (nothing) to 100 (perfect)."""

    threshold: float
    raw: float
    normalised: float


def best_result(series: Sequence[ScoredSeries], profile: Profile) -> Result:
    """Score a detector at the best threshold over all series for a profile."""
    thresholds, raws = sweep(series, profile)
    best = int(np.argmax(raws))
    return Result(float(thresholds[best]), float(raws[best]), normalise(float(raws[best]), series, profile))


def result_at(threshold: float, series: Sequence[ScoredSeries], profile: Profile) -> Result:
    """Score a detector at a given threshold: a row is an alarm if its score is at least that."""
    thresholds, raws = sweep(series, profile)
    # Thresholds are in falling order: the last one that is not below the given one has the same alarms.
    raw = float(raws[int(np.searchsorted(-thresholds, -threshold, side="right")) - 1])
    return Result(threshold, raw, normalise(raw, series, profile))


def sweep(series: Sequence[ScoredSeries], profile: Profile) -> tuple[Floats, Floats]:
    """Raw score, summed over the series, at each threshold that makes a difference, falling from infinity.

    Rows are added in the order of falling scores. Outside of windows, a row adds its cost; inside, its value above that of the
    window's best row so far.
    """
    of_all = [
        row_values(len(scored.scores), scored.windows).with_columns(
            score=pl.Series(scored.scores), series=pl.lit(number)
        )
        for number, scored in enumerate(series)
    ]
    rows = pl.concat(of_all).filter("counts", pl.col("score").is_not_nan()).sort("score", descending=True)
    window, missed = ("series", "window"), -profile.false_negative
    best = pl.max_horizontal("worth", pl.lit(missed)).cum_max()
    inside = (best - best.shift(fill_value=missed)).over(window)
    change = pl.when(pl.col("window") < 0).then(pl.col("worth") * profile.false_positive).otherwise(inside)
    totals = rows.with_columns(change=change).group_by("score", maintain_order=True).agg(pl.col("change").sum())
    nothing = missed * _count_windows(series)
    return np.append(np.inf, totals["score"]), np.append(nothing, nothing + totals["change"].cum_sum())


def row_values(length: int, windows: Sequence[tuple[int, int]]) -> pl.DataFrame:
    """For each row of a series: the `worth` of an alarm, the `window` that it is in (-1: none), and whether it `counts`."""
    worth = np.full(length, -1.0)
    window = np.full(length, -1, dtype=np.int64)
    row = np.arange(length)
    for number, (first, last) in enumerate(windows):
        width = last - first + 1
        behind = row[last + 1 :] - last
        # A window of one row has no width: all rows after it count as far away.
        relative = behind / (width - 1) if width > 1 else np.full(len(behind), FAR_BEHIND)
        worth[last + 1 :] = np.where(relative >= FAR_BEHIND, -1.0, scaled_sigmoid(relative))
        inside = slice(first, last + 1)
        worth[inside] = scaled_sigmoid((row[inside] - last - 1) / width) / scaled_sigmoid(np.array(-1.0))
        window[inside] = number
    return pl.DataFrame({"worth": worth, "window": window, "counts": row >= probationary_rows(length)})


def probationary_rows(length: int) -> int:
    """The number of rows at the beginning of a series that are for learning only."""
    return min(int(PROBATION_SHARE * length), LONGEST_PROBATION)


def scaled_sigmoid(relative: Floats) -> Floats:
    """1 far before the end of a window, 0 at its end, -1 far after it."""
    # 2 / (1 + exp(5 x)) - 1, as the benchmark writes it, is a hyperbolic tangent.
    return np.tanh(-STEEPNESS / 2.0 * relative)


def _count_windows(series: Sequence[ScoredSeries]) -> int:
    """The number of windows with a row that counts."""
    return sum(last >= probationary_rows(len(scored.scores)) for scored in series for _, last in scored.windows)


def normalise(raw: float, series: Sequence[ScoredSeries], profile: Profile) -> float:
    """Normalize a raw score: 0 for a detector without alarms, 100 for one with alarms at the first row of each window only."""
    windows = _count_windows(series)
    nothing = -profile.false_negative * windows
    return 100.0 * (raw - nothing) / (windows - nothing) if windows else float("nan")
