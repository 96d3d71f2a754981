"""Run the step of anomaly predictions: predict and learn events, and retire models."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from keyfold import PROCESSING_DEADLINE, Clock, Step, Timeout
from keyfold.operators.steps import Ordered, cut_lifetimes, in_order
from keyfold.times import period_start, shifted
from spark_jobs.jobs.anomaly_predictions.learning import Learned, complete_windows, every_interval
from spark_jobs.jobs.anomaly_predictions.model_state import Kept
from spark_jobs.jobs.anomaly_predictions.models.protocol import Floats, KeyRuns, Model, key_runs
from spark_jobs.jobs.anomaly_predictions.tables import (
    ANOMALY_PREDICTION,
    LABELS,
    LATEST_PREDICTION,
    NONE,
    RETIRED_MODEL,
    WAITING,
    state_schema,
)
from spark_jobs.streams import METRICS

if TYPE_CHECKING:
    from spark_jobs.jobs.anomaly_predictions.job import AnomalyPredictionParameters

_KEY = ("key",)
Labels = NDArray[np.int8]


@dataclass(frozen=True)
class AnomalyStep:
    """The step for one model, one order and one way to learn."""

    model: Model
    parameters: "AnomalyPredictionParameters"

    def __call__(self, state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
        is_by_arrival = self.parameters.order == "arrival"
        is_late = events.select((pl.col("timestamp") <= clock.previous_watermark) & (not is_by_arrival)).to_series()
        # Negative zero becomes zero: they are equal, and would otherwise keep their order of arrival.
        value = pl.col("value")
        on_time = events.filter(~is_late).with_columns(pl.when(value == 0).then(0.0).otherwise(value).alias("value"))
        waiting = pl.concat([state.filter(role=WAITING).select(METRICS.schema.names), on_time])
        waiting = waiting.with_columns(deadline=self._due())
        # Includes events that waited for the watermark before the job was moved to this order.
        is_due = waiting.select((pl.col("deadline") <= clock.watermark) | is_by_arrival).to_series()
        due = waiting.filter(is_due).select("key", "value", event_time="timestamp")
        ready = in_order(due, _KEY, "event_time")
        waiting = waiting.filter(~is_due)

        kept = self._refreshed(Kept.of(state, self.model), clock)
        kept = kept.with_new(self.model, _keys(ready.events))
        output, latest, retired = [_empty(ANOMALY_PREDICTION)], [_empty(LATEST_PREDICTION)], []
        # The first lifetime continues the models; before each later one, the models of its keys retire.
        for life, part in self._lifetimes(kept.models, ready):
            if life:
                kept, gone = self._retire(kept, kept.models["key"].is_in(_keys(part).implode()))
                retired.append(gone)
                kept = kept.with_new(self.model, _keys(part))
            kept, emitted, last = self._process(kept, part, clock)
            output.append(emitted)
            latest.append(last)
        kept, gone = self._retire(kept, self._is_silent(kept.models, waiting, clock))
        return Step(
            state=self._state(kept.refreshed_where_many_wait(self.model), waiting, clock),
            output=pl.concat(output),
            late=events.filter(is_late),
            side={"latest_predictions": pl.concat(latest), "retired_models": pl.concat([*retired, gone])},
        )

    def _due(self) -> pl.Expr:
        """Return when an event is due: when the watermark has passed it, or its window."""
        time, window = pl.col("timestamp"), self.parameters.window
        return period_start(time, window) + window if self.parameters.learn == "complete_window" else time

    def _refreshed(self, kept: Kept, clock: Clock) -> Kept:
        """Let models learn values whose refresh is due, before they predict new events or retire."""
        waits = kept.unlearned
        # Values that waited before the job was moved to another way to learn are learned now.
        if self.parameters.learn == "refresh":
            waits = waits.filter(pl.col(PROCESSING_DEADLINE) <= clock.processing_time)
        return kept.refreshed(self.model, waits["key"].unique())

    def _learned(self, models: pl.DataFrame, serving: pl.DataFrame, events: pl.DataFrame) -> Learned:
        if self.parameters.learn == "every_interval":
            return every_interval(self.model, models, serving, events, self.parameters.interval)
        if self.parameters.learn == "complete_window":
            return complete_windows(self.model, models, serving, events, self.parameters.window)
        if self.parameters.learn == "refresh":
            # Nothing is learned: the events are kept until the refresh.
            return Learned(self.model.predict(models, events), models, serving)
        return Learned(*self.model.predict_then_learn(models, events), serving)

    def _lifetimes(self, models: pl.DataFrame, ordered: Ordered) -> Iterator[tuple[int, pl.DataFrame]]:
        """Split events by the lifetime of their key: 0 continues the key's state, and each silence starts the next."""
        if not ordered.events.height:
            return
        keys = ordered.events.select(_KEY)[ordered.starts]
        last = keys.join(models.select("key", "last_event_time"), on=_KEY, how="left", maintain_order="left")[
            "last_event_time"
        ]
        cut = cut_lifetimes(
            ordered, "event_time", last + self.parameters.forget_after, Timeout(self.parameters.forget_after)
        )
        first = np.searchsorted(cut.key_number, cut.key_number)
        life = np.arange(len(first)) - first + np.where(cut.goes_on[first], 0, 1)
        lives = pl.Series(life[cut.ordered.key_number])
        for number in np.unique(life).tolist():
            yield number, ordered.events.filter(lives == number)

    def _process(self, kept: Kept, events: pl.DataFrame, clock: Clock) -> tuple[Kept, pl.DataFrame, pl.DataFrame]:
        """Predict and learn events; return the new state, the predictions to emit, and the last one of each key."""
        keys = _keys(events).implode()
        has_events, is_served = kept.models["key"].is_in(keys), kept.serving["key"].is_in(keys)
        # One row per run of events, in the same order.
        models = kept.models.filter(has_events).sort("key")
        runs = key_runs(models, events)
        learned = self._learned(models, kept.serving.filter(is_served), events)
        predictions = learned.predictions
        knows_enough = predictions["events_learned"].to_numpy() >= self.parameters.min_events
        scores = np.where(knows_enough, predictions["score"].to_numpy(), 0.0)
        threshold = self.model.threshold if self.parameters.threshold is None else self.parameters.threshold
        labels = (scores > threshold).astype(np.int8)
        is_emitted, label_before, label, score = self._changes(labels, scores, runs, models)
        rows = events.hstack(predictions).with_columns(
            score=pl.Series(scores), label=pl.Series(labels), previous_label=pl.Series(label_before)
        )
        ends = runs.starts + runs.counts - 1
        now, before = rows["event_time"][ends], models["last_event_time"]
        # A late event does not replace the prediction of a newer one.
        is_newest = (now >= before).fill_null(value=True)
        updated = learned.models.with_columns(
            last_event_time=pl.select(pl.max_horizontal(before, now)).to_series(),
            label=pl.Series(label, dtype=pl.Int8),
            score=pl.Series(score, dtype=pl.Float64),
        )
        refresh_at = shifted(clock.processing_time, self.parameters.refresh_after)
        refresh_at = pl.lit(refresh_at).cast(pl.Datetime("us", "UTC")).alias(PROCESSING_DEADLINE)
        unlearned = kept.unlearned
        if self.parameters.learn == "refresh":
            unlearned = pl.concat([unlearned, events.select("key", "value", refresh_at, "event_time")])
        kept = Kept(
            pl.concat([kept.models.filter(~has_events), updated.select(kept.models.columns)]),
            pl.concat([kept.serving.filter(~is_served), learned.serving.select(kept.serving.columns)]),
            unlearned,
        )
        output = _named(rows.filter(pl.Series(is_emitted))).select(ANOMALY_PREDICTION.names)
        return kept, output, _named(rows[ends].filter(is_newest)).select(LATEST_PREDICTION.names)

    def _changes(
        self, labels: Labels, scores: Floats, runs: KeyRuns, models: pl.DataFrame
    ) -> tuple[NDArray[np.bool_], Labels, list[int], list[float]]:
        """Find the predictions whose label differs from the key's last emitted one, or whose score does by `min_change`.

        Returns, for each prediction, whether it is emitted and the label emitted before; for each run, label and score last emitted.
        """
        is_emitted, label_before = np.zeros(len(labels), dtype=bool), np.full(len(labels), NONE, dtype=np.int8)
        least = self.parameters.min_change if self.parameters.emit == "changes" else -1.0
        last_labels, last_scores = (models[name].to_list() for name in ("label", "score"))
        every = list(zip(labels.tolist(), scores.tolist(), strict=True))
        for run, (start, count) in enumerate(zip(runs.starts.tolist(), runs.counts.tolist(), strict=True)):
            last, last_score = last_labels[run], last_scores[run]
            for row, (label, score) in enumerate(every[start : start + count], start):
                if label != last or abs(score - last_score) > least:
                    is_emitted[row], label_before[row] = True, last
                    last, last_score = label, score
            last_labels[run], last_scores[run] = last, last_score
        return is_emitted, label_before, last_labels, last_scores

    def _is_silent(self, models: pl.DataFrame, waiting: pl.DataFrame, clock: Clock) -> pl.Series:
        """Return whether a model has been silent for its timeout, and no waiting event arrived in time to continue it."""
        silent_at = pl.col("last_event_time") + self.parameters.forget_after
        is_silent = models.select(silent_at <= clock.watermark).to_series()
        if not is_silent.any():
            return is_silent
        first = waiting.group_by("key").agg(pl.col("timestamp").min().alias("next"))
        goes_on = (pl.col("next") <= silent_at).fill_null(value=False)
        joined = models.join(first, on="key", how="left", maintain_order="left")
        return is_silent & ~joined.select(goes_on).to_series()

    def _retire(self, kept: Kept, where: pl.Series) -> tuple[Kept, pl.DataFrame]:
        """Remove these models, which have learned all their values; return the state and their rows of `retired_models`."""
        if not where.any():
            return kept, _empty(RETIRED_MODEL)
        keys = kept.models["key"].filter(where)
        kept = kept.refreshed(self.model, keys)
        is_gone = kept.models["key"].is_in(keys.implode())
        gone = kept.models.filter(is_gone).with_columns(
            retired_at=pl.col("last_event_time") + self.parameters.forget_after
        )
        return kept.without(is_gone), gone.select(RETIRED_MODEL.names)

    def _state(self, kept: Kept, waiting: pl.DataFrame, clock: Clock) -> pl.DataFrame:
        # A model that is overdue because an event waits is examined again when that event is due.
        silent_at = pl.col("last_event_time") + self.parameters.forget_after
        rows = [
            kept.rows(pl.when(silent_at > clock.watermark).then(silent_at)),
            waiting.with_columns(role=pl.lit(WAITING)),
        ]
        return pl.concat(rows, how="diagonal").select(state_schema(self.model).names)


def _named(rows: pl.DataFrame) -> pl.DataFrame:
    """Convert labels to their text; NULL for none."""
    names = {NONE: None, 0: LABELS[0], 1: LABELS[1]}
    return rows.with_columns(pl.col("label", "previous_label").replace_strict(names, return_dtype=pl.String))


def _keys(events: pl.DataFrame) -> pl.Series:
    """Return the keys of events that are ordered by key."""
    return events["key"].rle().struct.field("value")


def _empty(columns: pa.Schema) -> pl.DataFrame:
    return pl.DataFrame(schema=pl.Schema(columns))
