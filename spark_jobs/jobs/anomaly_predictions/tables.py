"""Define the columns of the tables and the state of anomaly predictions."""

import pyarrow as pa

from keyfold import column, required
from keyfold.columns import plain_columns
from keyfold.stream import TIMESTAMP
from spark_jobs.jobs.anomaly_predictions.models.protocol import Model

_BOTH = ("timestamp", "value")

ANOMALY_PREDICTION = pa.schema(
    [
        required("key", pa.string(), "Series of the value", made_of="key"),
        required("event_time", TIMESTAMP, "When the value was measured (UTC)", made_of="timestamp"),
        required("value", pa.float64(), "The value", unit="in the series' own unit", made_of="value"),
        column(
            "expected", pa.float64(), "Value that the model expected; NULL until it has learned enough", made_of=_BOTH
        ),
        required("score", pa.float64(), "Anomaly score, from 0 (as expected) to 1", made_of=_BOTH),
        required("label", pa.string(), "anomalous above the threshold, else normal", made_of=_BOTH),
        column(
            "previous_label",
            pa.string(),
            "Label of the series' previous row in this table; NULL for the first row, and after the model has retired",
            made_of=_BOTH,
        ),
        required(
            "events_learned",
            pa.int64(),
            "Number of values that the predicting model had learned (with `complete_window`, its own window included)",
            made_of=_BOTH,
        ),
    ]
)

LATEST_PREDICTION = pa.schema(
    [
        *map(ANOMALY_PREDICTION.field, ("key", "event_time", "value", "expected")),
        column("low", pa.float64(), "Lower end of the usual values", made_of=_BOTH),
        column("high", pa.float64(), "Upper end of the usual values", made_of=_BOTH),
        *map(ANOMALY_PREDICTION.field, ("score", "label", "events_learned")),
    ]
)

RETIRED_MODEL = pa.schema(
    [
        required("key", pa.string(), "Series of the model", made_of="key"),
        required("events_learned", pa.int64(), "Number of values that it had learned", made_of="timestamp"),
        required("last_event_time", TIMESTAMP, "When the last of them was measured (UTC)", made_of="timestamp"),
        required(
            "retired_at", TIMESTAMP, "When it retired (UTC), in the time that `timeout_in` selects", made_of="timestamp"
        ),
    ]
)

LABELS = ("normal", "anomalous")

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
