"""Train a metric's model by periods of event time: every interval, or by complete windows.

Each way takes the models of the events' keys (`models.protocol`), the models that predict in the present interval (with the
column `interval`; only for `every_interval`), and events. Periods tumble from 1970 on.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import NamedTuple

import polars as pl

from keyfold.times import period_start
from spark_jobs.jobs.anomaly_predictions.models.protocol import Model


class Learned(NamedTuple):
    """The predictions in the order of the events, all models, and the models that predict in the last interval of each key."""

    predictions: pl.DataFrame
    models: pl.DataFrame
    serving: pl.DataFrame


def complete_windows(
    model: Model, models: pl.DataFrame, serving: pl.DataFrame, events: pl.DataFrame, window: timedelta
) -> Learned:
    """Learn each window's events, then predict them by that model."""
    parts = []
    for part in _periods(events, window):
        models = model.predict_then_learn(models, part)[1]
        parts.append(part.select("row").hstack(model.predict(models, part)))
    return Learned(_in_order(parts), models, serving)


def every_interval(
    model: Model, models: pl.DataFrame, serving: pl.DataFrame, events: pl.DataFrame, interval: timedelta
) -> Learned:
    """Predict the events of an interval by a model of all events before the interval.

    A second model learns the events of the interval as they arrive; it predicts from the beginning of the next interval.
    """
    parts = []
    for part in _periods(events, interval):
        now = part.group_by("key").agg(pl.col("period").first().alias("interval"))
        # A key's serving model predicts the events of its own interval; a new interval begins with the key's model.
        goes_on = serving.join(now, on=["key", "interval"], how="semi")
        begins = models.join(goes_on, on="key", how="anti").join(now, on="key").select(serving.columns)
        serves = pl.concat([goes_on, begins]).sort("key")
        parts.append(part.select("row").hstack(model.predict(serves, part)))
        serving = pl.concat([serving.join(serves, on="key", how="anti"), serves])
        models = model.predict_then_learn(models, part)[1]
    return Learned(_in_order(parts), models, serving)


def _periods(events: pl.DataFrame, length: timedelta) -> Iterator[pl.DataFrame]:
    """Yield the events of each key's first period, then those of its second, and so on, with `row` and `period`."""
    numbered = events.with_row_index("row").with_columns(period=period_start(pl.col("event_time"), length))
    turn = pl.col("period").rle_id().over("key")
    for _, part in numbered.with_columns(turn=turn).group_by("turn", maintain_order=True):
        yield part.drop("turn")


def _in_order(parts: list[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(parts).sort("row").drop("row")
