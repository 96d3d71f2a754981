"""Median of the last values, and how far from it most of them lie: a few outliers move neither.

The expected value is the median of the last `window` values. The deviation is the distance from it within which 95 in
100 of them lie, divided by 1.96: the standard deviation where values are normal. (The median distance, which is more
usual, takes half of the values to know nothing of the others: metrics with heavy tails would always alarm.) Where
so many are the same that this is zero, 1.2533 times the mean distance takes its place. For metrics with bursts and
breaks that must not blind the model to the next.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from spark_jobs.jobs.anomaly_predictions.models.recursion import Floats, Integers
from spark_jobs.jobs.anomaly_predictions.models.runs import KeyRuns, key_runs
from spark_jobs.jobs.anomaly_predictions.models.scoring import SEVEN_DEVIATIONS, WIDEST, predictions

NEAREST = 0.95
"""Share of the last values that tells how far values usually lie from their median."""
NEAREST_IN_DEVIATIONS = 1.959964
"""Standard deviations within which this share of normal values lies."""
DEVIATION_OF_MEAN = 1.253314
"""Standard deviations to one mean distance, of normal values."""

_EVENTS_AT_ONCE = 4_096


@dataclass(frozen=True)
class Robust:
    """The model `robust`.

    Attributes:
        window: how many of the last values it keeps.
    """

    window: int = 200
    name = "robust"
    version = 1
    threshold = SEVEN_DEVIATIONS
    half_at = None
    state = pa.schema([pa.field("last_values", pa.list_(pa.float64()))])
    """The last values, the newest last."""

    def initial(self, keys: pl.Series) -> pl.DataFrame:
        return pl.DataFrame({"key": keys}).with_columns(last_values=pl.lit([], pl.List(pl.Float64)))

    def learn(self, models: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
        values = events.select("key", pl.col("value").clip(-WIDEST, WIDEST))
        new = values.group_by("key", maintain_order=True).agg(pl.col("value").tail(self.window).alias("new_values"))
        joined = models.join(new, on="key", how="left", maintain_order="left")
        added = pl.col("new_values").fill_null([])
        return joined.select(*models.columns).with_columns(
            last_values=joined.select(pl.col("last_values").list.concat(added).list.tail(self.window)).to_series()
        )

    def predict(self, models: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
        return self.predict_as_of(models, events, pl.zeros(events.height, pl.Int64, eager=True))

    def predict_then_learn(self, models: pl.DataFrame, events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        rank = pl.Series(key_runs(models, events).rank)
        return self.predict_as_of(models, events, rank), self.learn(models, events)

    def predict_as_of(self, models: pl.DataFrame, events: pl.DataFrame, learned: pl.Series) -> pl.DataFrame:
        runs = key_runs(models, events)
        values = events["value"].to_numpy()
        past = _pasts(models["last_values"], np.clip(values, -WIDEST, WIDEST), runs)
        ends = past.news[runs.run] + learned.to_numpy()
        parts = [_centre(part) for part in _sorted_windows(past, ends, past.starts[runs.run], self.window)]
        expected, deviation = np.concatenate([np.empty((2, 0)), *parts], axis=1)
        return predictions(values, expected, deviation)


class _Pasts(NamedTuple):
    """The values of each run, those that its model has kept first, run by run.

    Attributes:
        values: of all runs.
        starts: of each run, the place of its first value.
        news: of each run, the place of its first new value.
    """

    values: Floats
    starts: Integers
    news: Integers


def _pasts(kept: pl.Series, values: Floats, runs: KeyRuns) -> _Pasts:
    kept = kept.gather(runs.model)
    lengths = kept.list.len().to_numpy().astype(np.int64)
    starts = runs.starts + np.cumsum(lengths) - lengths
    news = starts + lengths
    joined = np.empty(len(values) + int(lengths.sum()))
    is_new = np.zeros(len(joined), dtype=bool)
    is_new[news[runs.run] + runs.rank] = True
    joined[is_new] = values
    joined[~is_new] = kept.explode().drop_nulls().to_numpy()
    return _Pasts(joined, starts, news)


def _sorted_windows(past: _Pasts, ends: Integers, starts: Integers, window: int) -> Iterator[Floats]:
    """Of each event the values before its end, `window` at most and none before its start; infinity fills them up."""
    offsets = np.arange(-window, 0)
    for first in range(0, len(ends), _EVENTS_AT_ONCE):
        part = slice(first, first + _EVENTS_AT_ONCE)
        places = ends[part, None] + offsets
        windows = np.where(places >= starts[part, None], past.values[np.maximum(places, 0)], np.inf)
        windows.sort(axis=1)
        yield windows


def _centre(windows: Floats) -> Floats:
    """Median of each window and standard deviation by the distances from it; NaN where there is but one value, or none."""
    row, last = np.arange(len(windows)), windows.shape[1] - 1
    number = np.count_nonzero(windows < np.inf, axis=1)
    median = (windows[row, np.maximum(number - 1, 0) // 2] + windows[row, np.minimum(number // 2, last)]) / 2
    # The nearest values lie side by side: of all places where so many of them may begin, one has them all nearest.
    nearest = np.ceil(NEAREST * number).astype(np.int64)
    distance = np.full(len(windows), np.inf)
    with np.errstate(invalid="ignore"):
        for begin in range(int((number - nearest).max(initial=0)) + 1):
            end = windows[row, np.minimum(begin + nearest - 1, last)]
            furthest = np.maximum(median - windows[:, begin], end - median)
            distance = np.where(begin + nearest <= number, np.minimum(distance, furthest), distance)
    deviation = distance / NEAREST_IN_DEVIATIONS
    alike = np.flatnonzero((distance == 0.0) & (number > 1))
    deviation[alike] = DEVIATION_OF_MEAN * _mean_distance(windows[alike], median[alike], number[alike])
    return np.where(number > 1, np.stack([median, deviation]), np.nan)


def _mean_distance(windows: Floats, median: Floats, number: Integers) -> Floats:
    distances = np.where(windows < np.inf, np.abs(windows - median[:, None]), 0.0)
    return distances.sum(axis=1) / number
