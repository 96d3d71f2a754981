"""Define the interface of an anomaly model: it maps tables to tables, with one model per key, and does not use Spark.

All tables are Polars frames:

- **models**: one row per key, sorted by `key`: `key` and the columns of the model's `state`, numbers and lists of bounded
  size. They are the model's whole state, so it survives a restart unchanged.
- **events**: `key`, `event_time` (timestamp, UTC) and `value` (finite float), sorted by `key`, then by time. Events may be
  earlier than those that a model has learned. Every key of an event has a row in `models`.
- **predictions**: `PREDICTION`, one row per event in the order of the events.

Every model guarantees the following (`tests/spark_jobs/jobs/anomaly_predictions/models/test_every_model.py` tests all
registered models):

- **Results do not depend on batch boundaries.** Learning events in parts gives bitwise the same models and predictions as
  learning them at once. So use recursions (`decaying_sums` of `ewma.py`), and never differences of cumulative sums, which round.
- **Keys are independent.** Predictions for a key do not depend on the other keys in the call.
- **`predict` does not learn.**
- Keys without events are returned unchanged.
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
"""The expected value, the band of usual values around it (all NULL while the model has learned too little), and the score:
from 0 (as expected) to 1. The score is 0 while the model has learned too little."""

WIDEST = 1e150
"""Values are clipped to this distance from zero, so that no square overflows."""


class Model(Protocol):
    """A detector of unusual values. It is immutable: parameters are set at construction, and all state is in tables.

    Attributes:
        name: the name by which jobs select it.
        version: increase it when the same events would give other state or predictions; a change of parameters or of the
            threshold counts too.
        threshold: the recommended score above which a value is an anomaly.
        state: the columns of `models` except `key`. The names `key`, `timestamp`, `value`, `deadline`, `processing_deadline`, `role`,
            `events_learned`, `last_event_time`, `interval`, `label` and `score` are reserved for the job's own columns.
    """

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> int: ...

    @property
    def threshold(self) -> float: ...

    @property
    def state(self) -> pa.Schema: ...

    def initial(self, keys: pl.Series) -> pl.DataFrame:
        """Create untrained models for these keys, in this order."""
        ...

    def predict(self, models: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
        """Predict each event by its key's model, without learning."""
        ...

    def predict_then_learn(self, models: pl.DataFrame, events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Predict each event by a model that has learned the key's events before it; return predictions and updated models."""
        ...
