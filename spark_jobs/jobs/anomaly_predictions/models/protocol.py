"""What a model is: tables in, tables out, one model a key, all keys of a call at once. It knows nothing of Spark.

Frames that pass, all in Polars:

- **models**: one row a key, sorted by `key`: `key` and the columns of the model's `state`. Numbers and lists, bounded in
  size; this is all that a model knows, so that it survives a restart byte for byte.
- **events**: `key`, `event_time` (timestamp, UTC) and `value` (finite float), sorted by `key`, then by time. They may
  be earlier than what a model has learned. Any number of keys and any number of events of each; every key of them has a
  row in `models`.
- **predictions**: `PREDICTION`, one row an event in the order of the events.

What every model keeps (`tests/spark_jobs/jobs/anomaly_predictions/models/test_every_model.py` holds all that are registered to it):

- **Any split gives the same bits.** To learn events in parts, the models carried from part to part, gives exactly the
  models and predictions of learning them at once. So build on recursions (`recursion.py`), never on differences of
  cumulative sums.
- **Keys do not touch.** What a key's model says does not depend on the other keys in the call.
- **Frozen is frozen.** `predict` learns nothing.
- Keys without events come back as they were.
"""

from typing import Protocol

import polars as pl
import pyarrow as pa

PREDICTION = pa.schema(
    [
        pa.field("expected", pa.float64()),
        pa.field("low", pa.float64()),
        pa.field("high", pa.float64()),
        pa.field("score", pa.float64(), nullable=False),
    ]
)
"""The value expected, the band of usual values around it (all NULL while the model knows too little), and how unusual
the value is: from 0 (as expected) to 1. A model that cannot tell yet says 0."""


class Model(Protocol):
    """A detector of unusual values. Models are values: parameters are fixed when they are made, and all state is tables.

    Attributes:
        name: by which jobs ask for it.
        version: raise it when the same events would give other state or other predictions; its parameters and its
            threshold are part of it.
        threshold: score above which a value is best called anomalous.
        half_at: days from one alarm to the next at which the score is one half: it is `days / (days + half_at)` then.
            None where a score says nothing of how often it comes.
        state: the columns of one row of `models`, without `key`. None is named `key`, `timestamp`, `value`,
            `deadline`, `stale_at`, `role`, `events_learned`, `last_event_time`, `interval`, `label` or `score`: a job
            keeps its own there.
    """

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> int: ...

    @property
    def threshold(self) -> float: ...

    @property
    def half_at(self) -> float | None: ...

    @property
    def state(self) -> pa.Schema: ...

    def initial(self, keys: pl.Series) -> pl.DataFrame:
        """Models that have learned nothing, one for each of these keys, in their order."""
        ...

    def learn(self, models: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
        """The models once they have learned the events, in the order of `models`."""
        ...

    def predict(self, models: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
        """Predict each event by its key's model as it is given."""
        ...

    def predict_then_learn(self, models: pl.DataFrame, events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Predict each event by a model that has learned all of its key's events before it; predictions and models."""
        ...

    def predict_as_of(self, models: pl.DataFrame, events: pl.DataFrame, learned: pl.Series) -> pl.DataFrame:
        """Predict each event by a model that has learned the first `learned` of its key's events in this call.

        `learned` never falls within a key. Its key's events so far: what `predict_then_learn` predicts by. Always 0:
        what `predict` does. The key's events up to and with its own window: to look back once a window is complete. A
        model that has no quick way takes `rounds.predict_by_rounds`.
        """
        ...
