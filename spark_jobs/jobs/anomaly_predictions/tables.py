"""Define the columns of the tables and the state of anomaly predictions."""

import pyarrow as pa

from keyfold import TIMESTAMP, column, plain_columns, required
from spark_jobs.jobs.anomaly_predictions.models.protocol import Model

_BOTH = ("timestamp", "value")

ANOMALY_PREDICTION = pa.schema(
    [
        required("key", pa.string(), "Series of the value", lineage="key"),
        required("event_time", TIMESTAMP, "When the value was measured (UTC)", lineage="timestamp"),
        required("value", pa.float64(), "The value", unit="in the series' own unit", lineage="value"),
        column(
            "expected", pa.float64(), "Value that the model expected; NULL until it has learned enough", lineage=_BOTH
        ),
        required("score", pa.float64(), "Anomaly score, from 0 (as expected) to 1", lineage=_BOTH),
        required("label", pa.string(), "anomalous above the threshold, else normal", lineage=_BOTH),
        column(
            "previous_label",
            pa.string(),
            "Label of the series' previous row in this table; NULL for the first row, and after the model has retired",
            lineage=_BOTH,
        ),
        required(
            "events_learned",
            pa.int64(),
            "Number of values that the predicting model had learned (with `complete_window`, its own window included)",
            lineage=_BOTH,
        ),
    ]
)

LATEST_PREDICTION = pa.schema(
    [
        *map(ANOMALY_PREDICTION.field, ("key", "event_time", "value", "expected")),
        column("low", pa.float64(), "Lower end of the usual values", lineage=_BOTH),
        column("high", pa.float64(), "Upper end of the usual values", lineage=_BOTH),
        *map(ANOMALY_PREDICTION.field, ("score", "label", "events_learned")),
    ]
)

RETIRED_MODEL = pa.schema(
    [
        required("key", pa.string(), "Series of the model", lineage="key"),
        required("events_learned", pa.int64(), "Number of values that it had learned", lineage="timestamp"),
        required("last_event_time", TIMESTAMP, "When the last of them was measured (UTC)", lineage="timestamp"),
        required("retired_at", TIMESTAMP, "When it retired (UTC)", lineage="timestamp"),
    ]
)

LABELS = ("normal", "anomalous")
NONE = -1
"""The label of a key before its first emitted prediction; the others are places in `LABELS`."""

WAITING, LEARNING, SERVING, UNLEARNED = "waiting", "learning", "serving", "unlearned"
"""Roles of a state row: a waiting event; a key's model; the model that predicts in the present interval of `every_interval`; a
predicted event that is learned at the next refresh."""


def state_schema(model: Model) -> pa.Schema:
    """Return the schema of state rows of all roles: columns of events, of all models, and of this model."""
    own = pa.schema(
        [
            *plain_columns(pa.string(), "role", "key", nullable=False),
            pa.field("timestamp", TIMESTAMP),
            pa.field("value", pa.float64()),
            pa.field("events_learned", pa.int64()),
            *plain_columns(TIMESTAMP, "last_event_time", "interval"),
            pa.field("label", pa.int8()),
            pa.field("score", pa.float64()),
            *plain_columns(TIMESTAMP, "deadline", "processing_deadline"),
        ]
    )
    return pa.schema([*own, *model.state])
