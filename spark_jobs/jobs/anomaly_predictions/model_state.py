"""Read and write the state of keys: their models, and values that are not learned yet."""

from typing import NamedTuple

import polars as pl

from keyfold.operators.steps import in_order
from spark_jobs.jobs.anomaly_predictions.models.protocol import Model
from spark_jobs.jobs.anomaly_predictions.tables import LEARNING, NONE, SERVING, UNLEARNED

MOST_UNLEARNED = 1_000
"""Largest number of values of a key that wait for a refresh; bounds the state when many values arrive at once."""


class Kept(NamedTuple):
    """The state of keys.

    Attributes:
        models: the model of each key, with its last emitted prediction.
        serving: the models that predict in the present interval of `every_interval`.
        unlearned: predicted values that wait for a refresh: `key`, `value`, `event_time`, `processing_deadline`.
    """

    models: pl.DataFrame
    serving: pl.DataFrame
    unlearned: pl.DataFrame

    @staticmethod
    def of(state: pl.DataFrame, model: Model) -> "Kept":
        """Split the rows of state by role."""
        columns = ("key", *model.state.names, "events_learned")
        return Kept(
            state.filter(role=LEARNING).select(*columns, "last_event_time", "label", "score"),
            state.filter(role=SERVING).select(*columns, "interval"),
            state.filter(role=UNLEARNED).select("key", "value", "processing_deadline", event_time="timestamp"),
        )

    def with_new(self, model: Model, keys: pl.Series) -> "Kept":
        """Add an empty model for each of these keys that has none."""
        keys = keys.filter(~keys.is_in(self.models["key"].implode()))
        # Most batches have no new key, and a call on few rows costs as much as on thousands.
        if not len(keys):
            return self
        new = model.initial(keys).with_columns(
            last_event_time=pl.lit(None, pl.Datetime("us", "UTC")),
            label=pl.lit(NONE, pl.Int8),
            score=pl.lit(None, pl.Float64),
        )
        return self._replace(models=pl.concat([self.models, new.select(self.models.columns)]))

    def refreshed(self, model: Model, keys: pl.Series) -> "Kept":
        """Let the models of these keys learn all their waiting values at once, in order of time."""
        if not (self.unlearned.height and len(keys)):
            return self
        is_learned = self.unlearned["key"].is_in(keys.implode())
        if not is_learned.any():
            return self
        events = in_order(self.unlearned.filter(is_learned).drop("processing_deadline"), ("key",), "event_time").events
        is_theirs = self.models["key"].is_in(events["key"].unique().implode())
        theirs = self.models.filter(is_theirs).sort("key")
        models = pl.concat([self.models.filter(~is_theirs), model.predict_then_learn(theirs, events)[1]])
        return self._replace(models=models, unlearned=self.unlearned.filter(~is_learned))

    def refreshed_where_many_wait(self, model: Model) -> "Kept":
        """Refresh the models of keys with more than `MOST_UNLEARNED` waiting values."""
        if self.unlearned.height <= MOST_UNLEARNED:
            return self
        counts = self.unlearned.group_by("key").len()
        return self.refreshed(model, counts.filter(pl.col("len") > MOST_UNLEARNED)["key"])

    def without(self, where: pl.Series) -> "Kept":
        """Remove models; no value may be waiting for them."""
        gone = self.models.filter(where)
        return Kept(self.models.filter(~where), self.serving.join(gone, on="key", how="anti"), self.unlearned)

    def rows(self, deadline: pl.Expr) -> pl.DataFrame:
        """Return the rows of state, with models due at `deadline`."""
        rows = [
            self.models.with_columns(role=pl.lit(LEARNING), deadline=deadline),
            self.serving.with_columns(role=pl.lit(SERVING)),
            self.unlearned.rename({"event_time": "timestamp"}).with_columns(role=pl.lit(UNLEARNED)),
        ]
        return pl.concat(rows, how="diagonal")
