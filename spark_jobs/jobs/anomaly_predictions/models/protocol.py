"""Define the interface of an anomaly model, and run it over tables with one model per key. It does not use Spark.

Tables are Polars frames:

- **models**: one row per key, sorted by `key`: `key`, `events_learned` and the columns of the model's `state`, numbers and
  lists of bounded size. They are the model's whole state, so it survives a restart unchanged. Other columns are kept.
- **events**: `key`, `event_time` (timestamp, UTC) and `value` (finite float), sorted by `key`, then by time. Events may be
  earlier than those that a model has learned. Every key of an event has a row in `models`.
- **predictions**: `PREDICTION`, one row per event in the order of the events.

A model scores the events of one key at a time (`Model.score`), so that keys are independent. Every model guarantees that
**results do not depend on batch boundaries**: learning events in parts gives bitwise the same models and predictions as learning
them at once. So use recursions, and never differences of cumulative sums, which round.
`tests/spark_jobs/jobs/anomaly_predictions/models/test_every_model.py` tests all registered models.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from keyfold.keyed.rows.codec import polars_schema

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

PREDICTION = pa.schema(
    [
        pa.field("expected", pa.float64()),
        pa.field("low", pa.float64()),
        pa.field("high", pa.float64()),
        pa.field("score", pa.float64(), nullable=False),
        pa.field("events_learned", pa.int64(), nullable=False),
    ]
)
"""The expected value, the band of usual values around it (all NULL while the model has learned too little), the score: from 0 (as
expected) to 1, and 0 while the model has learned too little; and the number of events that the model had learned."""

WIDEST = 1e150
"""Values are clipped to this distance from zero, so that no square overflows."""


class Scored(NamedTuple):
    """The columns of `PREDICTION` but the last for the events of one key; NaN for NULL."""

    expected: Floats
    low: Floats
    high: Floats
    score: Floats


class Model(ABC):
    """A detector of unusual values. It is immutable: parameters are constants, and all state is in tables.

    Attributes:
        name: the name by which jobs select it.
        version: increase it when the same events would give other state or predictions; a change of parameters or of the
            threshold counts too.
        threshold: the recommended score above which a value is an anomaly.
        state: the columns of `models` except `key` and `events_learned`. The names `key`, `timestamp`, `value`, `deadline`, `processing_deadline`, `role`,
            `events_learned`, `last_event_time`, `interval`, `label` and `score` are reserved for the job's own columns.
        untrained: the values of these columns of a model that has learned nothing.
    """

    name: str
    version: int
    threshold: float
    state: pa.Schema
    untrained: Mapping[str, Any]

    @abstractmethod
    def score(self, model: dict[str, Any], times: Integers, values: Floats, *, learns: bool) -> Scored:
        """Score the events of one key, at least one, in order of time.

        Args:
            model: the columns of `state` of the key's model, and `events_learned` before these events; lists are arrays.
            times: microseconds since 1970.
            values: at most `WIDEST` from zero.
            learns: whether each event is learned before the next is scored, and `model` is updated; else every event is scored
                by the model as it is.
        """

    def initial(self, keys: pl.Series) -> pl.DataFrame:
        """Create untrained models for these keys, in this order."""
        columns = (pl.lit(self.untrained[name], kind).alias(name) for name, kind in polars_schema(self.state).items())
        return pl.DataFrame({"key": keys}).with_columns(*columns, events_learned=pl.lit(0, pl.Int64))

    def predict(self, models: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
        """Predict each event by its key's model, without learning."""
        return self._scored(models, events, learns=False)[0]

    def predict_then_learn(self, models: pl.DataFrame, events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Predict each event by a model that has learned the key's events before it; return predictions and updated models."""
        return self._scored(models, events, learns=True)

    def _scored(self, models: pl.DataFrame, events: pl.DataFrame, *, learns: bool) -> tuple[pl.DataFrame, pl.DataFrame]:
        if events.is_empty():
            return pl.DataFrame(schema=polars_schema(PREDICTION)), models
        runs = key_runs(models, events)
        columns = [_values(column) for column in models[runs.model]]
        rows = [dict(zip(models.columns, row, strict=True)) for row in zip(*columns, strict=True)]
        times = np.split(events["event_time"].to_physical().to_numpy(), runs.starts[1:])
        values = np.split(np.clip(events["value"].to_numpy(), -WIDEST, WIDEST), runs.starts[1:])
        scored = [self.score(*of_key, learns=learns) for of_key in zip(rows, times, values, strict=True)]
        found = dict(zip(Scored._fields, map(np.concatenate, zip(*scored, strict=True)), strict=True))
        counts = runs.counts.tolist()
        known = [row["events_learned"] + np.arange(count) * learns for row, count in zip(rows, counts, strict=True)]
        predictions = pl.DataFrame({**found, "events_learned": np.concatenate(known)})
        predictions = predictions.with_columns(pl.col("expected", "low", "high").fill_nan(None))
        if not learns:
            return predictions, models
        place = np.arange(models.height)
        place[runs.model] = models.height + np.arange(len(rows))
        for row, count in zip(rows, counts, strict=True):
            row["events_learned"] += count
        learned = [_column(name, kind, [row[name] for row in rows]) for name, kind in models.schema.items()]
        return predictions, pl.concat([models, pl.DataFrame(learned)])[place]


class KeyRuns(NamedTuple):
    """Runs of events, one per key: the row of the first event, the number of events, and the row of the key's model."""

    starts: Integers
    counts: Integers
    model: Integers


def key_runs(models: pl.DataFrame, events: pl.DataFrame) -> KeyRuns:
    """Find the runs of `events` (sorted by key) and the model of each."""
    lengths = events["key"].rle().struct.unnest()
    counts = lengths["len"].to_numpy().astype(np.int64)
    rows = models.select("key").with_row_index("row")
    model = lengths.select(key="value").join(rows, on="key", how="left", maintain_order="left")["row"]
    if model.null_count() or lengths["value"].n_unique() < lengths.height:
        raise ValueError("every key of the events needs one model, and events must be sorted by key")
    return KeyRuns(np.cumsum(counts) - counts, counts, model.to_numpy().astype(np.int64))


def _values(column: pl.Series) -> Sequence[Any]:
    """Return the values of a column; lists as arrays, which are read and written at once for all keys."""
    if column.dtype != pl.List:
        return column.to_list()
    return np.split(column.explode(empty_as_null=False).to_numpy(), column.list.len().cum_sum()[:-1].to_numpy())


def _column(name: str, kind: pl.DataType, values: Sequence[Any]) -> pl.Series:
    if kind != pl.List:
        return pl.Series(name, values, dtype=kind)
    offsets = np.cumsum([0, *map(len, values)])
    return pl.Series(name, pa.LargeListArray.from_arrays(offsets, np.concatenate(values)), dtype=kind)
