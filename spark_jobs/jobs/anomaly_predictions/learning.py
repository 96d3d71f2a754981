"""Train a metric's model in four ways: after every event, every interval, by complete windows, or at a refresh.

Each way takes the models of the events' keys (`key`, the model's columns, `events_learned`), the models that predict in the
present interval (the same columns and `interval`; only for `every_interval`), and events (`models.protocol`). It returns the
predictions in the order of the events, and the new models.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple

import numpy as np
import polars as pl

from keyfold.times import period_start
from spark_jobs.jobs.anomaly_predictions.models.protocol import Model
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


def every_event() -> Learn:
    """Predict each event by a model of all events before it."""

    def learn(model: Model, models: pl.DataFrame, serving: pl.DataFrame, events: pl.DataFrame) -> Learned:
        runs = key_runs(models, events)
        predictions, learned = model.predict_then_learn(_of(model, models), events)
        return Learned(_knowing(predictions, models, runs, runs.rank), _counted(learned, models, runs), serving)

    return learn


def complete_windows(window: timedelta) -> Learn:
    """Learn each window's events, then predict them by that model; windows tumble from 1970 on."""

    def learn(model: Model, models: pl.DataFrame, serving: pl.DataFrame, events: pl.DataFrame) -> Learned:
        runs = key_runs(models, events)
        first, length = _periods(runs, events, window)
        known = first + length
        predictions = model.predict_as_of(_of(model, models), events, pl.Series(known))
        learned = model.learn(_of(model, models), events)
        return Learned(_knowing(predictions, models, runs, known), _counted(learned, models, runs), serving)

    return learn


def every_interval(interval: timedelta) -> Learn:
    """Predict the events of an interval by a model of all events before the interval; intervals tumble from 1970 on.

    A second model learns the events of the interval as they arrive; it predicts from the beginning of the next interval.
    """

    def learn(model: Model, models: pl.DataFrame, serving: pl.DataFrame, events: pl.DataFrame) -> Learned:
        runs = key_runs(models, events)
        first, _ = _periods(runs, events, interval)
        predictions = model.predict_as_of(_of(model, models), events, pl.Series(first))
        predictions = _knowing(predictions, models, runs, first)
        # A key's serving model predicts the events of its own interval, and no others.
        started = events.select("key", interval=period_start(pl.col("event_time"), interval))
        served = started.join(
            serving.select("key", "interval", served=True), on=["key", "interval"], how="left", maintain_order="left"
        )
        is_served = served["served"].fill_null(value=False)
        if is_served.any():
            predictions = _replace(predictions, is_served, _predict_by(model, serving, events.filter(is_served)))
        last = started.group_by("key", maintain_order=True).agg(pl.col("interval").last())
        goes_on = last.join(serving, on=["key", "interval"], how="semi")
        is_last = pl.Series(first == first[runs.starts + runs.counts - 1][runs.run])
        comes_after = is_last | started["key"].is_in(goes_on["key"].implode())
        earlier = events.filter(~comes_after)
        # A key's new serving model is its model at the beginning of its last interval.
        until_last = learn_events(model, models, earlier)
        begins = until_last.join(last.join(goes_on, on="key", how="anti"), on="key")
        serving = pl.concat([serving.join(goes_on, on="key", how="semi"), begins.select(serving.columns)])
        return Learned(predictions, learn_events(model, until_last, events.filter(comes_after)), serving)

    return learn


def at_a_refresh() -> Learn:
    """Predict by the models and learn nothing: the caller keeps the events for `learn_events`."""

    def learn(model: Model, models: pl.DataFrame, serving: pl.DataFrame, events: pl.DataFrame) -> Learned:
        return Learned(_predict_by(model, models, events), models, serving)

    return learn


def learn_events(model: Model, models: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Return the models after they have learned the events, with the number of learned events."""
    return _counted(model.learn(_of(model, models), events), models, key_runs(models, events))


def _of(model: Model, models: pl.DataFrame) -> pl.DataFrame:
    return models.select("key", *model.state.names)


def _predict_by(model: Model, models: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    runs = key_runs(models, events)
    return _knowing(model.predict(_of(model, models), events), models, runs, np.zeros_like(runs.rank))


def _counted(learned: pl.DataFrame, models: pl.DataFrame, runs: KeyRuns) -> pl.DataFrame:
    """Add to the models the total number of events that each has learned."""
    added = np.zeros(models.height, dtype=np.int64)
    added[runs.model] = runs.counts
    return learned.with_columns(models["events_learned"] + pl.Series(added))


def _knowing(predictions: pl.DataFrame, models: pl.DataFrame, runs: KeyRuns, known: Integers) -> pl.DataFrame:
    """Add to the predictions the number of events that their model had learned: before this call, plus `known`."""
    before = models["events_learned"].to_numpy()[runs.model][runs.run]
    return predictions.with_columns(events_learned=pl.Series(before + known))


def _periods(runs: KeyRuns, events: pl.DataFrame, length: timedelta) -> tuple[Integers, Integers]:
    """Return, for each event's period, the rank of its first event within the key, and its number of events."""
    period = events.select(period_start(pl.col("event_time"), length).to_physical()).to_series().to_numpy()
    is_first = (runs.rank == 0) | np.append(True, period[1:] != period[:-1])[: len(period)]
    starts = np.flatnonzero(is_first)
    number = np.cumsum(is_first) - 1
    return runs.rank[starts][number], np.diff(np.append(starts, len(period)))[number]


def _replace(rows: pl.DataFrame, where: pl.Series, by: pl.DataFrame) -> pl.DataFrame:
    """Replace the rows at `where`."""
    order = where.arg_true().append((~where).arg_true()).arg_sort()
    return pl.concat([by.select(rows.columns), rows.filter(~where)])[order]
