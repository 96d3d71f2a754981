"""The step of anomaly predictions: events are predicted and learned in order of time or of arrival, and models retire."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

import numpy as np
import polars as pl

from keyfold import Clock, Step
from keyfold.keyed.job import STALE_AT, Parted, Timeout
from keyfold.keyed.rows.codec import empty
from keyfold.operators.ordering import in_order
from keyfold.operators.periods import period_start
from keyfold.times import micros, shifted
from spark_jobs.jobs.anomaly_predictions.changes import NONE, emit_all, find_changes
from spark_jobs.jobs.anomaly_predictions.learning import Learn
from spark_jobs.jobs.anomaly_predictions.model_state import Kept
from spark_jobs.jobs.anomaly_predictions.models.protocol import Model
from spark_jobs.jobs.anomaly_predictions.models.runs import Integers, key_runs
from spark_jobs.jobs.anomaly_predictions.tables import (
    ANOMALY_PREDICTION,
    LABELS,
    LATEST_PREDICTION,
    RETIRED_MODEL,
    UNLEARNED,
    WAITING,
    state_schema,
)
from spark_jobs.streams import METRICS

_LONG_AGO = -(2**63)
_KEY = ("key",)


class _Heard(NamedTuple):
    """What was made of events: all predictions that are emitted, the last one of each key, and what is kept."""

    output: pl.DataFrame
    latest: pl.DataFrame
    kept: Kept


class _Turn(NamedTuple):
    """What was made of keys in a batch: the rows of state, and rows of the tables."""

    state: pl.DataFrame
    output: pl.DataFrame
    latest: pl.DataFrame
    retired: pl.DataFrame


@dataclass(frozen=True)
class AnomalyStep:
    """The step of one model, one order and one way to learn.

    Attributes:
        model, learn: what predicts, and when it learns.
        at_arrival: whether events are predicted when they come, late or not; else when the watermark has passed them.
        window: how long events wait: until the end of their window, None: until the watermark has passed them.
        refresh_after: processing time after which models learn what was predicted; None: `learn` sees to it.
        threshold: score above which a value is anomalous.
        min_events: events that a model must have learned; until then scores are 0.
        min_change: by how much more than this a score must differ to be emitted, None: all are.
        forget: silence after which a model retires.
    """

    model: Model
    learn: Learn
    at_arrival: bool
    window: timedelta | None
    refresh_after: timedelta | None
    threshold: float
    min_events: int
    min_change: float | None
    forget: Timeout

    def __call__(self, state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
        is_late = events.select((pl.col("timestamp") <= clock.late_watermark) & (not self.at_arrival)).to_series()
        # Negative zero becomes zero: the two are one value, and would lie in order of arrival.
        on_time = events.filter(~is_late).with_columns(pl.col("value") + 0.0)
        over, going_on = self._part(state, clock)
        turns = [self._turn(over, on_time.clear(), clock, _forgotten_at(over))] if over.height else []
        turns.append(self._turn(going_on, on_time, clock))
        return Step(
            state=self._renewed(turns[-1].state, going_on, on_time, clock),
            output=pl.concat([turn.output for turn in turns]),
            late=events.filter(is_late),
            side={
                # Of a key that was over and has begun anew, what came last.
                "latest_predictions": pl.concat([turn.latest for turn in turns]).unique(
                    "key", keep="last", maintain_order=True
                ),
                "retired_models": pl.concat([turn.retired for turn in turns]),
            },
        )

    def _part(self, state: pl.DataFrame, clock: Clock) -> Parted:
        """Part all rows of the keys that are to be forgotten before the batch; what is unlearned is due at its refresh."""
        if self.forget.in_event_time:
            return Parted(state.clear(), state)
        over, going_on = self.forget.part(_but_unlearned(state), _KEY, clock)
        if over.is_empty():
            return Parted(over, state)
        unlearned = state.filter(role=UNLEARNED)
        is_over = unlearned["key"].is_in(over["key"].unique().implode())
        return Parted(pl.concat([over, unlearned.filter(is_over)]), pl.concat([going_on, unlearned.filter(~is_over)]))

    def _renewed(self, rows: pl.DataFrame, before: pl.DataFrame, heard: pl.DataFrame, clock: Clock) -> pl.DataFrame:
        """Rows of state, with when their keys are to be forgotten in processing time."""
        if self.forget.in_event_time:
            return rows
        is_unlearned = rows["role"] == UNLEARNED
        renewed = self.forget.renew(rows.filter(~is_unlearned), _but_unlearned(before), heard, _KEY, clock)
        return pl.concat([renewed, rows.filter(is_unlearned)])

    def _turn(self, state: pl.DataFrame, events: pl.DataFrame, clock: Clock, over: pl.DataFrame | None = None) -> _Turn:
        """Predict and learn what is due; of keys that were `over` (and when) all that waits, and then forget them."""
        waiting = pl.concat([state.filter(role=WAITING).select(METRICS.schema.names), events])
        waiting = waiting.with_columns(deadline=self._due())
        # Also what waited for the watermark before the job was moved to this order.
        is_due = waiting.select(
            (pl.col("deadline") <= clock.watermark) | self.at_arrival | (over is not None)
        ).to_series()
        due = waiting.filter(is_due).select("key", "value", event_time="timestamp")
        ready = in_order(due, _KEY, "event_time").events
        waiting = waiting.filter(~is_due)

        kept = self._refreshed(Kept.of(state, self.model), clock, over)
        kept = kept.with_new(self.model, _keys(ready))
        output, latest, retired = [empty(ANOMALY_PREDICTION)], [empty(LATEST_PREDICTION)], []
        for life, part in self._lives(kept.models, ready):
            if life:
                kept, gone = self._retire(kept, kept.models["key"].is_in(_keys(part).implode()))
                retired.append(gone)
                kept = kept.with_new(self.model, _keys(part))
            heard = self._hear(kept, part, clock)
            output.append(heard.output)
            latest.append(heard.latest)
            kept = heard.kept
        kept, gone = self._retire(kept, self._is_silent(kept.models, waiting, clock) | (over is not None), over)
        return _Turn(
            state=self._state(kept.refreshed_where_many_wait(self.model), waiting, clock),
            output=pl.concat(output),
            latest=pl.concat(latest),
            retired=pl.concat([*retired, gone]),
        )

    def _due(self) -> pl.Expr:
        """When an event has waited enough."""
        time = pl.col("timestamp")
        return time if self.window is None else period_start(time, self.window) + self.window

    def _refreshed(self, kept: Kept, clock: Clock, over: pl.DataFrame | None) -> Kept:
        """Let models learn what has waited for long enough, before they predict what came now, or what waits to the end."""
        waits = kept.unlearned
        if not waits.height:
            return kept
        if self.refresh_after is not None:
            # Of a key that was over before now, until then: how often one looks must change nothing.
            until = None if over is None else waits.join(over, on=_KEY, how="left", maintain_order="left")["over_at"]
            waits = waits.filter(pl.col(STALE_AT) <= (clock.processing_time if until is None else until))
        return kept.refreshed(self.model, waits["key"].unique())

    def _lives(self, models: pl.DataFrame, events: pl.DataFrame) -> Iterator[tuple[int, pl.DataFrame]]:
        """Part events by the life of their key to which they belong: 0 goes on, each silence begins the next.

        A silence of processing time lies between batches, and so between no two events of one.
        """
        if not events.height:
            return
        if not self.forget.in_event_time:
            yield 0, events
            return
        runs = key_runs(models, events)
        times = events["event_time"].to_physical().to_numpy()
        last = models["last_event_time"].to_physical().fill_null(_LONG_AGO).to_numpy()[runs.model]
        before = np.roll(times, 1)
        before[runs.starts] = np.where(last == _LONG_AGO, times[runs.starts], last)
        # What comes late breaks no silence that lies behind the key's newest event.
        before = np.maximum(before, last[runs.run])
        is_silence = times - before > micros(self.forget.after)
        silences = np.cumsum(is_silence)
        lives = silences - (silences - is_silence)[runs.starts][runs.run]
        if not silences[-1]:
            yield 0, events
            return
        for life in range(int(lives.max()) + 1):
            yield life, events.filter(pl.Series(lives == life))

    def _hear(self, kept: Kept, events: pl.DataFrame, clock: Clock) -> _Heard:
        """Predict and learn events, and find the predictions to emit."""
        keys = _keys(events).implode()
        is_heard, is_served = kept.models["key"].is_in(keys), kept.serving["key"].is_in(keys)
        models = kept.models.filter(is_heard).sort("key")
        runs = key_runs(models, events)
        learned = self.learn(self.model, models, kept.serving.filter(is_served), events)
        predictions = learned.predictions
        knows_enough = predictions["events_learned"].to_numpy() >= self.min_events
        scores = np.where(knows_enough, predictions["score"].to_numpy(), 0.0)
        labels = (scores > self.threshold).astype(np.int8)
        last_label = models["label"].to_numpy()[runs.model]
        if self.min_change is None:
            emitted = emit_all(labels, scores, runs.starts, runs.counts, last_label)
        else:
            last_score = models["score"].to_numpy()[runs.model]
            emitted = find_changes(labels, scores, runs.starts, runs.counts, last_label, last_score, self.min_change)
        rows = events.hstack(predictions).with_columns(
            score=pl.Series(scores), label=pl.Series(labels), previous_label=pl.Series(emitted.label_before)
        )
        ends = runs.starts + runs.counts - 1
        newest = pl.DataFrame(
            {"before": models["last_event_time"], "now": _placed(rows["event_time"][ends], runs.model)}
        )
        # What came late leaves a newer value's prediction where it is.
        is_newest = (newest["now"] >= newest["before"]).fill_null(value=True)[runs.model]
        heard = learned.models.with_columns(
            last_event_time=newest.select(pl.max_horizontal("before", "now")).to_series(),
            label=_placed(pl.Series(emitted.label), runs.model),
            score=_placed(pl.Series(emitted.score), runs.model),
        )
        return _Heard(
            output=_named(rows.filter(pl.Series(emitted.is_emitted))).select(ANOMALY_PREDICTION.names),
            latest=_named(rows[ends].filter(is_newest)).select(LATEST_PREDICTION.names),
            kept=Kept(
                pl.concat([kept.models.filter(~is_heard), heard.select(kept.models.columns)]),
                pl.concat([kept.serving.filter(~is_served), learned.serving.select(kept.serving.columns)]),
                kept.unlearned
                if self.refresh_after is None
                else pl.concat([kept.unlearned, self._told(events, clock)]),
            ),
        )

    def _told(self, events: pl.DataFrame, clock: Clock) -> pl.DataFrame:
        """Events that were predicted, and wait for the refresh."""
        assert self.refresh_after is not None  # noqa: S101 - asked for by those that wait alone
        refresh_at = pl.lit(shifted(clock.processing_time, self.refresh_after)).cast(pl.Datetime("us", "UTC"))
        return events.select("key", "value", refresh_at.alias("stale_at"), "event_time")

    def _is_silent(self, models: pl.DataFrame, waiting: pl.DataFrame, clock: Clock) -> pl.Series:
        """Whether a model has been silent for long enough, and no event waits that came in time to go on."""
        silent_at = pl.col("last_event_time") + self.forget.after
        is_silent = models.select((silent_at <= clock.watermark) & self.forget.in_event_time).to_series()
        if not is_silent.any():
            return is_silent
        first = waiting.group_by("key").agg(pl.col("timestamp").min().alias("next"))
        goes_on = (pl.col("next") <= silent_at).fill_null(value=False)
        joined = models.join(first, on="key", how="left", maintain_order="left")
        return is_silent & ~joined.select(goes_on).to_series()

    def _retire(self, kept: Kept, where: pl.Series, over: pl.DataFrame | None = None) -> tuple[Kept, pl.DataFrame]:
        """Forget models once they have learned all; give what `retired_models` tells of them.

        Args:
            kept: what there is.
            where: of each model, whether it is forgotten.
            over: since when keys were over; None: the last event says so.
        """
        if not where.any():
            return kept, empty(RETIRED_MODEL)
        keys = kept.models["key"].filter(where)
        kept = kept.refreshed(self.model, keys)
        is_gone = kept.models["key"].is_in(keys.implode())
        gone = kept.models.filter(is_gone)
        if over is None:
            gone = gone.with_columns(retired_at=pl.col("last_event_time") + self.forget.after)
        else:
            gone = gone.join(over, on=_KEY, how="left", maintain_order="left").rename({"over_at": "retired_at"})
        return kept.without(is_gone), gone.select(RETIRED_MODEL.names)

    def _state(self, kept: Kept, waiting: pl.DataFrame, clock: Clock) -> pl.DataFrame:
        # A model that is overdue because an event waits is looked at again when that event is due.
        silent_at = pl.col("last_event_time") + self.forget.after
        rows = [
            kept.rows(pl.when((silent_at > clock.watermark) & self.forget.in_event_time).then(silent_at)),
            waiting.with_columns(role=pl.lit(WAITING)),
        ]
        return pl.concat(rows, how="diagonal").select(state_schema(self.model).names)


def _forgotten_at(over: pl.DataFrame) -> pl.DataFrame:
    """When each key that is over was to be forgotten."""
    return _but_unlearned(over).group_by(_KEY).agg(over_at=pl.col(STALE_AT).max())


def _but_unlearned(state: pl.DataFrame) -> pl.DataFrame:
    """Rows whose `stale_at` is when their key is forgotten: of those that are unlearned it is when they are learned."""
    return state.filter(pl.col("role") != UNLEARNED)


def _named(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with labels as the tables show them; NULL for none."""
    names = {NONE: None, 0: LABELS[0], 1: LABELS[1]}
    return rows.with_columns(pl.col("label", "previous_label").replace_strict(names, return_dtype=pl.String))


def _keys(events: pl.DataFrame) -> pl.Series:
    """The keys of events that lie key by key."""
    return events["key"].rle().struct.field("value")


def _placed(of_runs: pl.Series, model: Integers) -> pl.Series:
    """Values of runs in the order of their models; each model has one run."""
    return of_runs[np.argsort(model)]
