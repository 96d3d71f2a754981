"""Anomaly predictions: how unusual each value of a metric is, said by a model of the metric that learns as it goes.

Each key has a model in state, which predicts each event and learns it. In which `order`:

- `event_time`: an event waits until the watermark has passed it, so that models learn in order of event time (values at
  one moment in order of size) whatever the order of arrival. Events at or behind the watermark are late.
- `arrival`: an event is predicted by the model so far in the batch in which it comes, late or not. Events of one batch
  are taken in order of event time, values of one moment in order of size. Nothing waits and nothing is late.

And when models `learn`:

- `every_event`: predicted by a model that has learned all events before it.
- `every_interval`: predicted by the model as it was when the event's `interval` of event time began.
- `complete_window`: once the watermark has passed the end of the event's `window`, predicted by a model that has
  learned the whole window.
- `refresh`: predicted by the model as it was last refreshed. Once `refresh_after` of processing time has passed since the
  first event that it has not learned, it learns all that it has not, in one go and in order of event time; a thousand
  events of a key that wait for it do not wait longer.

What this guarantees. In order of event time, but for `refresh`, the answer does not depend on how events are split into
batches: the same events, the same answers. In order of arrival, and with `refresh`, it depends on them: the same batches
at the same processing times give the same answers, to the last bit, whatever files their rows lie in and however often a
crash has them worked on again, since the journal says what a batch is and what time it is in it. The same events in
other batches give other answers, for another model was asked.

Of the predictions the table has the first of each key and those that differ enough from the one before them there:
another label, or a score further away than `min_change`.

A model of which nothing is heard for `forget_after` of event time leaves state for the table `retired_models`; should
its key come back, it begins anew. With `timeout_in=processing_time` nothing is heard of a key from the batch on that
brought its last event, whatever time that is of; what waits of it is predicted and learned before it leaves
(`keyed.timeouts`).
"""

from datetime import timedelta
from typing import TYPE_CHECKING, Literal, Self

import polars as pl
from pydantic import Field, model_validator

from keyfold import JobTemplate, KeyedJob, OutputTable
from keyfold.keyed.job import Duration, Timeout
from spark_jobs.jobs.anomaly_predictions.learning import at_a_refresh, complete_windows, every_event, every_interval
from spark_jobs.jobs.anomaly_predictions.models import MODELS, find_model
from spark_jobs.jobs.anomaly_predictions.models.protocol import Model
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
from spark_jobs.jobs.expiry import SilentParameters
from spark_jobs.streams import METRICS

STATE_VERSION = 1
"""Of the columns of state that every model shares."""

if TYPE_CHECKING:
    ModelName = str
else:
    ModelName = Literal[tuple(MODELS)]


class AnomalyPredictionParameters(SilentParameters):
    """Parameters of `anomaly_predictions`."""

    model: ModelName = Field(
        "rarity",
        description="rarity: how many days pass until the metric does the like again, by its time of day, its levels and "
        "how long a value stays the same; for alarms that people are to look at. ewma: exponentially weighted mean and "
        "variance; a short example of a model, for metrics that wander",
    )
    order: Literal["event_time", "arrival"] = Field(
        "event_time",
        description="event_time: a value is predicted once the watermark has passed it, and what comes behind it is late; "
        "however the values come, the answers are the same. arrival: predicted by the model so far when it comes, late "
        "or not; the soonest answer, and another one if values come in other batches",
    )
    learn: Literal["every_event", "every_interval", "complete_window", "refresh"] = Field(
        "every_event",
        description="every_event: each event is predicted by a model that has learned all before it; the soonest "
        "answer. every_interval: predicted by the model as it was when the event's interval began, so that the events "
        "of one burst do not get used to each other. complete_window: once its window of event time is complete, "
        "predicted by a model that has learned all of the window; the fullest answer, and the last to come. refresh: "
        "predicted by the model as it was last refreshed, which learns in one go what came since",
    )
    refresh_after: Duration = Field(
        timedelta(seconds=1),
        description="refresh: processing time from the first value that a model has not learned to its refresh",
    )
    interval: Duration = Field(
        timedelta(hours=1),
        description="every_interval: event time from one refresh of the model to the next, from 1970",
    )
    window: Duration = Field(
        timedelta(days=1),
        description="complete_window: length of a window in event time, one after the other from 1970",
    )
    emit: Literal["changes", "all"] = Field(
        "changes",
        description="changes: a key's first prediction and each that differs enough from the one emitted before it. "
        "all: every prediction",
    )
    min_change: float = Field(
        0.2, ge=0, le=1, description="By how much more than this a score must differ to be emitted under the same label"
    )
    alarms_per_week: float | None = Field(
        None,
        ge=1 / 8,
        le=3,
        description="Alarms a week and metric that you can live with: rarer values are anomalous. For rarity, whose score "
        "counts days; not beside a threshold. Of what comes more often than three times a week too little is remembered "
        "to tell it apart, and nothing is known to be rarer than once in eight weeks",
    )
    threshold: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Score above which a value is anomalous; by default that of alarms_per_week, or what the model "
        "recommends: rarity two alarms a week",
    )
    min_events: int = Field(
        30, ge=0, description="Events a model must have learned before it calls anything anomalous; until then score 0"
    )
    forget_after: Duration = Field(timedelta(days=30), description="Silence after which a model retires")

    @model_validator(mode="after")
    def _arrival_knows_no_periods(self) -> Self:
        if self.order == "arrival" and self.learn in ("every_interval", "complete_window"):
            raise ValueError(
                f"order=arrival goes with learn=every_event or learn=refresh: {self.learn} takes values by periods of event "
                "time, of which late ones come when their period is over"
            )
        return self

    @model_validator(mode="after")
    def _alarms_are_counted_one_way(self) -> Self:
        if self.alarms_per_week is not None and self.threshold is not None:
            raise ValueError("alarms_per_week and threshold say the same twice; give one of them")
        if self.alarms_per_week is not None and find_model(self.model).half_at is None:
            raise ValueError(
                f"the score of {self.model} does not count days; give a threshold instead of alarms_per_week"
            )
        return self


_FROM_HERE_ON = frozenset(
    {
        "order",
        "learn",
        "refresh_after",
        "interval",
        "window",
        "emit",
        "min_change",
        "alarms_per_week",
        "threshold",
        "min_events",
        "forget_after",
        "timeout_in",
    }
)
"""Parameters that count from here on: what a model has learned does not depend on them, only when the next values are
predicted and learned, what of them is emitted, and when the model retires. Another model has other state.
"""


def build(parameters: AnomalyPredictionParameters) -> KeyedJob:
    """Make the job of its parameters."""
    model = find_model(parameters.model)
    ways = {
        "every_event": every_event(),
        "every_interval": every_interval(parameters.interval),
        "complete_window": complete_windows(parameters.window),
        "refresh": at_a_refresh(),
    }
    step = AnomalyStep(
        model=model,
        learn=ways[parameters.learn],
        at_arrival=parameters.order == "arrival",
        window=parameters.window if parameters.learn == "complete_window" else None,
        refresh_after=parameters.refresh_after if parameters.learn == "refresh" else None,
        threshold=_threshold(model, parameters),
        min_events=parameters.min_events,
        min_change=parameters.min_change if parameters.emit == "changes" else None,
        forget=Timeout(parameters.forget_after, parameters.timeout_in),
    )
    return KeyedJob(
        name="anomaly_predictions",
        stream=METRICS,
        key=("key",),
        event_time="timestamp",
        events=METRICS.schema,
        state=state_schema(model),
        output=ANOMALY_PREDICTION,
        step=step,
        step_decides_late=True,
        side_outputs=(
            OutputTable(
                "latest_predictions",
                LATEST_PREDICTION,
                mode="upsert",
                key=("key",),
                description="The last prediction of each series, emitted or not, with the band of usual values.",
            ),
            OutputTable(
                "retired_models",
                RETIRED_MODEL,
                events=pl.col("events_learned").sum(),
                description="One row a model that was forgotten, after `forget_after` without a value.",
            ),
        ),
        # The model's version too: what another version has learned is not to be read as this one's.
        schema_version=100 * STATE_VERSION + model.version,
        output_events=pl.lit(0),
        state_events=pl.col("role").is_in([WAITING, UNLEARNED]).sum()
        + pl.col("events_learned").filter(pl.col("role") == LEARNING).sum(),
        one_per_key=pl.col("role") == LEARNING,
        **parameters.settings(),
        movable_parameters=_FROM_HERE_ON,
    )


def _threshold(model: Model, parameters: AnomalyPredictionParameters) -> float:
    """Score above which a value is anomalous."""
    if parameters.alarms_per_week is not None and model.half_at is not None:
        days = 7.0 / parameters.alarms_per_week
        return days / (days + model.half_at)
    return model.threshold if parameters.threshold is None else parameters.threshold


ANOMALY_PREDICTIONS = JobTemplate(
    "anomaly_predictions",
    "How unusual each metric's values are by a model that learns as it goes; a row when its answer changes.",
    AnomalyPredictionParameters,
    build,
)
