"""Define the interface of an anomaly model, and run it over tables with one model per key. It does not use Spark.

Tables are Polars frames:

- **models**: one row per key, sorted by `key`: `key`, `events_learned` and the columns of the model's `state`, numbers and
  lists of bounded size. They are the model's whole state, so it survives a restart unchanged. Other columns are kept.
- **events**: `key`, `event_time` (timestamp, UTC) and `value` (finite float), sorted by `key`, then by time. Events may be
  earlier than those that a model has learned. Every key of an event has a row in `models`.
- **predictions**: `PREDICTION`, one row per event in the order of the events.

A model scores the events of all keys in one call (`Model.score`): a call on few numbers costs as much as on thousands. Every model
guarantees that keys are independent, and that **results do not depend on batch boundaries**: learning events in parts gives
bitwise the same models and predictions as learning them at once. So use recursions, and never differences of cumulative sums,
which round.
`tests/spark_jobs/jobs/anomaly_predictions/models/test_every_model.py` tests all registered models.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

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
    """The columns of `PREDICTION` but the last, one row per event; NaN for NULL."""

    expected: Floats
    low: Floats
    high: Floats
    score: Floats


class KeyRuns(NamedTuple):
    """Runs of events, one per key.

    Attributes:
        starts, counts: of each run the row of the first event, and the number of events.
        model: of each run the row of the key's model.
        key, place: of each event the number of its run, and its place in the run.
    """

    starts: Integers
    counts: Integers
    model: Integers
    key: Integers
    place: Integers


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
    def score(
        self, models: pl.DataFrame, runs: KeyRuns, times: Integers, values: Floats, *, learns: bool
    ) -> tuple[Scored, dict[str, Any]]:
        """Score events, and return the columns of `state` that have changed.

        Args:
            models: the models of the runs, one row per run, before these events.
            runs: the runs of the events, one per key.
            times: microseconds since 1970, in order in each run.
            values: at most `WIDEST` from zero.
            learns: whether each event is learned before the next of its key is scored; else every event is scored by the model as
                it is, and the columns are not used.
        """

    def initial(self, keys: pl.Series) -> pl.DataFrame:
        """Create untrained models for these keys, in this order."""
        columns = (pl.lit(self.untrained[name], kind).alias(name) for name, kind in pl.Schema(self.state).items())
        return pl.DataFrame({"key": keys}).with_columns(*columns, events_learned=pl.lit(0, pl.Int64))

    def predict(self, models: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
        """Predict each event by its key's model, without learning."""
        return self._scored(models, events, learns=False)[0]

    def predict_then_learn(self, models: pl.DataFrame, events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Predict each event by a model that has learned the key's events before it; return predictions and updated models."""
        return self._scored(models, events, learns=True)

    def _scored(self, models: pl.DataFrame, events: pl.DataFrame, *, learns: bool) -> tuple[pl.DataFrame, pl.DataFrame]:
        if events.is_empty():
            return pl.DataFrame(schema=pl.Schema(PREDICTION)), models
        runs = key_runs(models, events)
        own = models[runs.model]
        values = np.clip(events["value"].to_numpy(), -WIDEST, WIDEST)
        scored, changed = self.score(own, runs, events["event_time"].to_physical().to_numpy(), values, learns=learns)
        known = own["events_learned"].to_numpy()
        predictions = pl.DataFrame({**scored._asdict(), "events_learned": known[runs.key] + runs.place * learns})
        predictions = predictions.with_columns(pl.col("expected", "low", "high").fill_nan(None))
        if not learns:
            return predictions, models
        learned = own.with_columns(**changed, events_learned=known + runs.counts)
        return predictions, replaced(models, runs.model, learned)


def key_runs(models: pl.DataFrame, events: pl.DataFrame) -> KeyRuns:
    """Find the runs of `events` (sorted by key) and the model of each."""
    lengths = events["key"].rle().struct.unnest()
    counts = lengths["len"].to_numpy().astype(np.int64)
    rows = models.select("key").with_row_index("row")
    model = lengths.select(key="value").join(rows, on="key", how="left", maintain_order="left")["row"]
    if model.null_count() or lengths["value"].n_unique() < lengths.height:
        raise ValueError("every key of the events needs one model, and events must be sorted by key")
    starts, key = np.cumsum(counts) - counts, np.repeat(np.arange(len(counts)), counts)
    return KeyRuns(starts, counts, model.to_numpy().astype(np.int64), key, np.arange(len(key)) - starts[key])


def replaced(rows: pl.DataFrame, where: Integers, by: pl.DataFrame) -> pl.DataFrame:
    """Replace the rows at these places."""
    place = np.arange(rows.height)
    place[where] = rows.height + np.arange(by.height)
    return pl.concat([rows, by])[place]


def flat(column: pl.Series) -> tuple[NDArray[Any], Integers]:
    """Return the values of a column of lists, one list after the other, and the length of each."""
    return column.explode(empty_as_null=False).to_numpy(), column.list.len().to_numpy().astype(np.int64)


def lists(values: NDArray[Any], counts: Integers) -> pl.Series:
    """Create a column of lists of these lengths."""
    return pl.Series(pa.LargeListArray.from_arrays(np.append(0, np.cumsum(counts)), values))
