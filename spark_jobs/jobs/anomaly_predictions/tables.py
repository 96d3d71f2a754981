"""What anomaly predictions writes and keeps: the columns of its tables and of its state."""

import pyarrow as pa

from spark_jobs.jobs.anomaly_predictions.models.protocol import Model
from spark_jobs.streams import TIMESTAMP

ANOMALY_PREDICTION = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("event_time", TIMESTAMP, nullable=False),
        pa.field("value", pa.float64(), nullable=False),
        pa.field("expected", pa.float64()),
        pa.field("score", pa.float64(), nullable=False),
        pa.field("label", pa.string(), nullable=False),
        pa.field("previous_label", pa.string()),
        pa.field("events_learned", pa.int64(), nullable=False),
    ]
)

LATEST_PREDICTION = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("event_time", TIMESTAMP, nullable=False),
        pa.field("value", pa.float64(), nullable=False),
        pa.field("expected", pa.float64()),
        pa.field("low", pa.float64()),
        pa.field("high", pa.float64()),
        pa.field("score", pa.float64(), nullable=False),
        pa.field("label", pa.string(), nullable=False),
        pa.field("events_learned", pa.int64(), nullable=False),
    ]
)

RETIRED_MODEL = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("events_learned", pa.int64(), nullable=False),
        pa.field("last_event_time", TIMESTAMP, nullable=False),
        pa.field("retired_at", TIMESTAMP, nullable=False),
    ]
)

LABELS = ("normal", "anomalous")

WAITING, LEARNING, SERVING = "waiting", "learning", "serving"
"""Roles of a state row: an event that waits; a key's model; the model by which `every_interval` predicts meanwhile."""


def state_schema(model: Model) -> pa.Schema:
    """State of any role: an event's columns, what is known of a model, the model's own columns."""
    own = pa.schema(
        [
            pa.field("role", pa.string(), nullable=False),
            pa.field("key", pa.string(), nullable=False),
            pa.field("timestamp", TIMESTAMP),
            pa.field("value", pa.float64()),
            pa.field("events_learned", pa.int64()),
            pa.field("last_event_time", TIMESTAMP),
            pa.field("interval", TIMESTAMP),
            pa.field("label", pa.int8()),
            pa.field("score", pa.float64()),
            pa.field("deadline", TIMESTAMP),
        ]
    )
    return pa.schema([*own, *model.state])
