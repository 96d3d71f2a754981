"""Train a metric's model in four ways: after every event, every interval, by complete windows, or at a refresh.

Each way takes the models of the events' keys (`key`, the model's columns, `events_learned`), the models that predict in the
present interval (the same columns and `interval`; only for `every_interval`), and events (`models.protocol`). It returns the
predictions in the order of the events, and the new models.
"""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import NamedTuple

import numpy as np
import polars as pl

from keyfold.keyed.rows.codec import polars_schema
from keyfold.times import period_start
from spark_jobs.jobs.anomaly_predictions.models.protocol import PREDICTION, Model
from spark_jobs.jobs.anomaly_predictions.models.runs import Integers, KeyRuns, key_runs


class Learned(NamedTuple):
    """The result of one call.

    Attributes:
        predictions: one row per event, with `models.protocol.PREDICTION` and `events_learned`, the number of events that the
            predicting model had learned.
        models: all models.
        serving: the models that predict in the last interval of each key.
    """

    predictions: pl.DataFrame
    models: pl.DataFrame
    serving: pl.DataFrame


Learn = Callable[[Model, pl.DataFrame, pl.DataFrame, pl.DataFrame], Learned]


def every_event(model: Model, models: pl.DataFrame, serving: pl.DataFrame, events: pl.DataFrame) -> Learned:
    """Predict each event by a model of all events before it."""
    runs = key_runs(models, events)
    predictions, learned = model.predict_then_learn(models.select("key", *model.state.names), events)
    return Learned(_knowing(predictions, models, runs, runs.rank), _counted(learned, models, runs), serving)


def complete_windows(window: timedelta) -> Learn:
    """Learn each window's events, then predict them by that model; windows tumble from 1970 on."""

    def learn(model: Model, models: pl.DataFrame, serving: pl.DataFrame, events: pl.DataFrame) -> Learned:
        known, parts = _of(model, models), [_nothing()]
        for part in _periods(events, window):
            taught = learn_events(model, _of_keys(known, part), part)
            parts.append(part.select("row").hstack(_predict_by(model, taught, part)))
            known = _replaced(known, taught)
        return Learned(_in_order(parts), known, serving)

    return learn


def every_interval(interval: timedelta) -> Learn:
    """Predict the events of an interval by a model of all events before the interval; intervals tumble from 1970 on.

    A second model learns the events of the interval as they arrive; it predicts from the beginning of the next interval.
    """

    def learn(model: Model, models: pl.DataFrame, serving: pl.DataFrame, events: pl.DataFrame) -> Learned:
        known, parts = _of(model, models), [_nothing()]
        for part in _periods(events, interval):
            now = part.group_by("key").agg(pl.col("period").first().alias("interval"))
            mine = _of_keys(known, part)
            # A key's serving model predicts the events of its own interval; a new interval begins with the key's model.
            goes_on = serving.join(now, on=["key", "interval"], how="semi")
            begins = mine.join(goes_on, on="key", how="anti").join(now, on="key").select(serving.columns)
            serves = pl.concat([goes_on, begins]).sort("key")
            parts.append(part.select("row").hstack(_predict_by(model, serves, part)))
            serving = _replaced(serving, serves)
            known = _replaced(known, learn_events(model, mine, part))
        return Learned(_in_order(parts), known, serving)

    return learn


def at_a_refresh(model: Model, models: pl.DataFrame, serving: pl.DataFrame, events: pl.DataFrame) -> Learned:
    """Predict by the models and learn nothing: the caller keeps the events for `learn_events`."""
    return Learned(_predict_by(model, models, events), models, serving)


def learn_events(model: Model, models: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Return the models after they have learned the events, with the number of learned events."""
    runs = key_runs(models, events)
    return _counted(model.predict_then_learn(models.select("key", *model.state.names), events)[1], models, runs)


def _of(model: Model, models: pl.DataFrame) -> pl.DataFrame:
    return models.select("key", *model.state.names, "events_learned")


def _of_keys(models: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Return the models of the events' keys."""
    return models.join(events, on="key", how="semi", maintain_order="left")


def _replaced(models: pl.DataFrame, by: pl.DataFrame) -> pl.DataFrame:
    """Replace the models of these keys, or add them."""
    return pl.concat([models.join(by, on="key", how="anti"), by]).sort("key")


def _periods(events: pl.DataFrame, length: timedelta) -> Iterator[pl.DataFrame]:
    """Yield the events of each key's first period, then those of its second, and so on, with `row` and `period`."""
    numbered = events.with_row_index("row").with_columns(period=period_start(pl.col("event_time"), length))
    turn = pl.col("period").rle_id().over("key")
    for _, part in numbered.with_columns(turn=turn).group_by("turn", maintain_order=True):
        yield part.drop("turn")


def _nothing() -> pl.DataFrame:
    """Return no predictions, as the first part of those of `_in_order`."""
    return pl.DataFrame(schema={"row": pl.get_index_type(), **polars_schema(PREDICTION), "events_learned": pl.Int64})


def _in_order(parts: list[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(parts).sort("row").drop("row")


def _predict_by(model: Model, models: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    runs = key_runs(models, events)
    predictions = model.predict(models.select("key", *model.state.names), events)
    return _knowing(predictions, models, runs, np.zeros_like(runs.rank))


def _counted(learned: pl.DataFrame, models: pl.DataFrame, runs: KeyRuns) -> pl.DataFrame:
    """Add to the models the total number of events that each has learned."""
    added = np.zeros(models.height, dtype=np.int64)
    added[runs.model] = runs.counts
    return learned.with_columns(models["events_learned"] + pl.Series(added))


def _knowing(predictions: pl.DataFrame, models: pl.DataFrame, runs: KeyRuns, known: Integers) -> pl.DataFrame:
    """Add to the predictions the number of events that their model had learned: before this call, plus `known`."""
    before = models["events_learned"].to_numpy()[runs.model][runs.run]
    return predictions.with_columns(events_learned=pl.Series(before + known))
