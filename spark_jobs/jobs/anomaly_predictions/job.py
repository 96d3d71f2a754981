"""Score how unusual each value of a metric is, by an online model per metric.

Each key has a model in state, which predicts each event and then learns it. The parameter `order` sets the order of events:

- `event_time`: an event waits until the watermark has passed it. Models learn in order of event time (values of the same time
  in order of size), whatever the order of arrival. Events at or behind the watermark are late.
- `arrival`: an event is predicted in the batch in which it arrives, late or not. Events of one batch are processed in order of
  event time, values of the same time in order of size. No event waits, and none is late.

The parameter `learn` sets which model predicts an event:

- `every_event`: the model that has learned all events before it.
- `every_interval`: the model at the beginning of the event's `interval` of event time.
- `complete_window`: once the watermark has passed the end of the event's `window`, the model that has learned the whole window.
- `refresh`: the model at its last refresh. When `refresh_after` of processing time has passed since the first event that it has
  not learned, or a thousand such events wait, it learns all of them at once, in order of event time.

Guarantees. With `order=event_time` and without `refresh`, results do not depend on batch boundaries. With `order=arrival` or
`refresh` they do; but the same batches at the same processing times give identical results, to the last bit, for any file
layout and any number of repeats after a crash, since the journal records each batch's input and time.

The table has the first prediction of each key, and those that differ enough from the last one in the table: another label, or
a score that differs by more than `min_change`.

A model without events for `forget_after` of event time moves from state to the table `retired_models`; if its key returns, a
new model starts.
"""

from datetime import timedelta
from typing import TYPE_CHECKING, Literal, Self

import polars as pl
from pydantic import Field, model_validator

from keyfold import (
    Append,
    Duration,
    EventTimeParameters,
    Input,
    KeyedJob,
    State,
    Upsert,
    parameter,
    with_parameters,
)
from keyfold.operators.steps import step_job
from spark_jobs.jobs.anomaly_predictions.models import MODELS
from spark_jobs.jobs.anomaly_predictions.step import AnomalyStep
from spark_jobs.jobs.anomaly_predictions.tables import (
    ANOMALY_PREDICTION,
    LATEST_PREDICTION,
    LEARNING,
    RETIRED_MODEL,
    UNLEARNED,
    WAITING,
    state_schema,
)
from spark_jobs.streams import METRICS

STATE_VERSION = 1
"""Version of the state columns that all models share."""

if TYPE_CHECKING:
    ModelName = str
else:
    ModelName = Literal[tuple(MODELS)]


class AnomalyPredictionParameters(EventTimeParameters):
    """Parameters of `anomaly_predictions`."""

    model: ModelName = Field(
        "rarity",
        description="rarity: after how many days a similar value recurs, by time of day, level, and how long a value stays the "
        "same; for alarms that people read. ewma: exponentially weighted mean and variance; a short example of a model, for "
        "drifting metrics",
    )
    order: Literal["event_time", "arrival"] = parameter(
        "event_time",
        description="event_time: a value is predicted when the watermark has passed it, and values behind the watermark are "
        "late; results do not depend on the order of arrival. arrival: a value is predicted when it arrives, late or not; the "
        "earliest result, which depends on batch boundaries",
        change="migrate",
    )
    learn: Literal["every_event", "every_interval", "complete_window", "refresh"] = parameter(
        "every_event",
        description="every_event: each event is predicted by a model that has learned all events before it; the earliest "
        "result. every_interval: by the model at the beginning of the event's interval, so that a burst does not train the "
        "model on itself. complete_window: once the event's window of event time is complete, by a model that has learned the "
        "whole window; the latest result. refresh: by the model at its last refresh, when it learned all events since the "
        "refresh before",
        change="migrate",
    )
    refresh_after: Duration = parameter(
        timedelta(seconds=1),
        description="refresh: processing time from the first unlearned value of a model to its refresh",
        change="migrate",
    )
    interval: Duration = parameter(
        timedelta(hours=1),
        description="every_interval: length of an interval in event time; intervals are aligned to 1970 UTC",
        change="migrate",
    )
    window: Duration = parameter(
        timedelta(days=1),
        description="complete_window: length of a tumbling window in event time, aligned to 1970 UTC",
        change="migrate",
    )
    emit: Literal["changes", "all"] = parameter(
        "changes",
        description="changes: a key's first prediction, and each that differs enough from the last emitted one. "
        "all: every prediction",
        change="migrate",
    )
    min_change: float = parameter(
        0.2,
        ge=0,
        le=1,
        description="Difference of scores above which a prediction with the same label is emitted",
        change="migrate",
    )
    threshold: float | None = parameter(
        None,
        ge=0,
        le=1,
        description="Score above which a value is anomalous; default: the model's, for rarity that of two alarms a week",
        change="migrate",
    )
    min_events: int = parameter(
        30,
        ge=0,
        description="Events that a model must have learned before it labels values anomalous; until then the score is 0",
        change="migrate",
    )
    forget_after: Duration = parameter(
        timedelta(days=30), description="Silence after which a model retires", change="migrate"
    )

    @model_validator(mode="after")
    def _arrival_knows_no_periods(self) -> Self:
        if self.order == "arrival" and self.learn in ("every_interval", "complete_window"):
            raise ValueError(
                f"order=arrival requires learn=every_event or learn=refresh: {self.learn} processes values by periods of event "
                "time, and late values arrive when their period has ended"
            )
        return self


def build(parameters: AnomalyPredictionParameters) -> KeyedJob:
    """Anomaly scores of each metric's values by an online model; a row when the prediction changes."""
    model = MODELS[parameters.model]
    state = State(
        state_schema(model),
        # Includes the model's version: a model must not read what another version has learned.
        version=100 * STATE_VERSION + model.version,
        events=pl.col("role").is_in([WAITING, UNLEARNED]).sum()
        + pl.col("events_learned").filter(pl.col("role") == LEARNING).sum(),
        one_per_key=pl.col("role") == LEARNING,
    )
    tables = [
        Append(ANOMALY_PREDICTION, events=pl.lit(0)),
        Upsert(
            LATEST_PREDICTION,
            "key",
            name="latest_predictions",
            description="The last prediction of each series, emitted or not, with the band of usual values.",
        ),
        Append(
            RETIRED_MODEL,
            name="retired_models",
            events=pl.col("events_learned").sum(),
            description="One row per retired model, after `forget_after` without a value.",
        ),
    ]
    # Values wait in state for the watermark, and models learn them in order of their times, as operators do.
    source, step = Input(METRICS, columns=METRICS.schema), AnomalyStep(model, parameters)
    return step_job("anomaly_predictions", source, ("key",), state, step, tables, {})


ANOMALY_PREDICTIONS = with_parameters(build)
