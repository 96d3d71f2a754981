"""Buckets of the hour: what a value is expected to be is what it was at this hour of the week.

Each of the 168 hours of the week has an exponentially weighted mean and variance of its own, so have the 24 hours of
the day, and there is one for all. A value is held against the finest of its three buckets that has seen
enough values. Hours are of UTC. For metrics that follow people's days and weeks.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.jobs.anomaly_predictions.models.recursion import (
    Floats,
    Integers,
    decaying_sums,
    of_number,
    total_weights,
)
from spark_jobs.jobs.anomaly_predictions.models.runs import KeyRuns, at_end, at_number, key_runs
from spark_jobs.jobs.anomaly_predictions.models.scoring import SEVEN_DEVIATIONS, WIDEST, predictions

BUCKETS = 1 + 24 + 168
"""One for all, then the hours of the day from midnight, then those of the week from Monday midnight."""


@dataclass(frozen=True)
class Seasonal:
    """The model `seasonal`.

    Attributes:
        share: weight of the newest value in the mean and of the newest squared error in the variance of a bucket.
        enough: values that a bucket must have seen to be relied on.
    """

    share: float = 0.02
    enough: int = 8
    name = "seasonal"
    version = 1
    threshold = SEVEN_DEVIATIONS
    half_at = None
    state = pa.schema(
        [
            pa.field("n", pa.list_(pa.int64())),
            pa.field("level", pa.list_(pa.float64())),
            pa.field("spread", pa.list_(pa.float64())),
        ]
    )
    """A number a bucket: values learned; decaying sum of values; decaying sum of squared errors (but for the first)."""
    _weights: Floats = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_weights", total_weights(self.share))

    def initial(self, keys: pl.Series) -> pl.DataFrame:
        zeros = np.zeros((len(keys), BUCKETS))
        return pl.DataFrame({"key": keys, "n": _lists(zeros.astype(np.int64)), "level": _lists(zeros)}).with_columns(
            spread="level"
        )

    def learn(self, models: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
        return self._learned(models, self._paths(models, events))

    def predict(self, models: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
        return self.predict_as_of(models, events, pl.zeros(events.height, pl.Int64, eager=True))

    def predict_then_learn(self, models: pl.DataFrame, events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        paths = self._paths(models, events)
        return self._as_of(events, paths, key_runs(models, events).rank), self._learned(models, paths)

    def predict_as_of(self, models: pl.DataFrame, events: pl.DataFrame, learned: pl.Series) -> pl.DataFrame:
        return self._as_of(events, self._paths(models, events), learned.to_numpy())

    def _paths(self, models: pl.DataFrame, events: pl.DataFrame) -> "list[_Path]":
        """Learn the events in each kind of bucket, from the coarsest on, and keep what the buckets are after each."""
        runs = key_runs(models, events)
        kept = [_table(models[column]).ravel() for column in self.state.names]
        return [self._path(kept, events["value"].to_numpy(), runs, bucket) for bucket in _buckets(events["event_time"])]

    def _path(self, kept: list[NDArray], values: Floats, runs: KeyRuns, bucket: Integers) -> "_Path":
        place = runs.model[runs.run] * BUCKETS + bucket
        order = np.argsort(place, kind="stable")
        inside = _runs_of(place[order], runs.rank[order])
        number, level, spread = (column[inside.model] for column in kept)
        ordered = np.clip(values[order], -WIDEST, WIDEST)
        levels = decaying_sums(self.share * ordered, inside.starts, inside.counts, level, 1.0 - self.share)
        before = np.arange(len(order)) - inside.starts[inside.run]
        so_far = number[inside.run] + before
        with np.errstate(invalid="ignore"):
            error = ordered - at_number(levels, level, inside, before) / of_number(self._weights, so_far)
        squares = np.where(so_far > 0, self.share * (error * error), 0.0)
        spreads = decaying_sums(squares, inside.starts, inside.counts, spread, 1.0 - self.share)
        return _Path(inside, order, number, level, spread, levels, spreads)

    def _learned(self, models: pl.DataFrame, paths: "list[_Path]") -> pl.DataFrame:
        n, level, spread = (_table(models[column]).ravel() for column in self.state.names)
        n = n.copy()
        for path in paths:
            n[path.runs.model] += path.runs.counts
            level, spread = at_end(path.levels, level, path.runs), at_end(path.spreads, spread, path.runs)
        learned = {"n": n, "level": level, "spread": spread}
        return models.with_columns(
            _lists(column.reshape(models.height, BUCKETS)).alias(name) for name, column in learned.items()
        )

    def _as_of(self, events: pl.DataFrame, paths: "list[_Path]", learned: Integers) -> pl.DataFrame:
        expected, deviation = np.full((2, events.height), np.nan)
        for path in paths:
            number, level, spread = path.as_of(learned)
            with np.errstate(invalid="ignore"):
                mean = level / of_number(self._weights, number)
                variance = spread / of_number(self._weights, np.maximum(number - 1, 0))
            is_relied_on = (number >= self.enough) | (path is paths[0])
            expected = np.where(is_relied_on, mean, expected)
            deviation = np.where(is_relied_on, np.sqrt(variance), deviation)
        return predictions(events["value"].to_numpy(), expected, deviation)


class _Path(NamedTuple):
    """What the buckets of one kind were at first, a row a bucket, and after each event, in the order `order`.

    The runs are those of the events of one bucket; their `model` is the bucket's place among all models' buckets, and
    their `rank` is the event's rank among all events of its key.
    """

    runs: KeyRuns
    order: Integers
    number: Integers
    level: Floats
    spread: Floats
    levels: Floats
    spreads: Floats

    def as_of(self, learned: Integers) -> tuple[Integers, Floats, Floats]:
        """Each event's bucket (values learned, level, spread) once the key has learned so many events."""
        runs = self.runs
        width = int(max(runs.rank.max(initial=0), learned.max(initial=0))) + 1
        events = runs.run * width
        known = np.searchsorted(events + runs.rank, events + learned[self.order]) - runs.starts[runs.run]
        number = np.empty(len(known), np.int64)
        level, spread = np.empty((2, len(known)))
        number[self.order] = self.number[runs.run] + known
        level[self.order] = at_number(self.levels, self.level, runs, known)
        spread[self.order] = at_number(self.spreads, self.spread, runs, known)
        return number, level, spread


def _buckets(times: pl.Series) -> list[Integers]:
    """The three buckets of each time, the coarsest first."""
    hour = times.dt.hour().to_numpy().astype(np.int64)
    weekday = times.dt.weekday().to_numpy().astype(np.int64) - 1
    return [np.zeros(len(hour), dtype=np.int64), 1 + hour, 25 + 24 * weekday + hour]


def _runs_of(place: Integers, rank: Integers) -> KeyRuns:
    """The runs of one number each in sorted numbers."""
    starts = np.flatnonzero(np.append(True, place[1:] != place[:-1])[: len(place)])
    counts = np.diff(np.append(starts, len(place)))
    return KeyRuns(starts, counts, place[starts], np.repeat(np.arange(len(starts)), counts), rank)


def _lists(table: NDArray) -> pl.Series:
    kind = pl.Int64() if table.dtype == np.int64 else pl.Float64()
    return pl.Series(table, dtype=pl.Array(kind, BUCKETS)).cast(pl.List(kind))


def _table(lists: pl.Series) -> NDArray:
    return lists.explode().to_numpy().reshape(len(lists), BUCKETS)
