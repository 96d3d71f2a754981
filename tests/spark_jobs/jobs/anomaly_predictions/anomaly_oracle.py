"""Anomaly predictions by their definition, in plain Python, one key and one event after the other."""

import copy
import math
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

BEGINNING = datetime(1, 1, 1, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Ewma:
    """The exponentially weighted recursion: decaying sums of values, weights, squared errors and their weights."""

    def __init__(self):
        self.n, self.sum, self.weight, self.squares, self.squares_weight = 0, 0.0, 0.0, 0.0, 0.0

    def learn(self, value):
        if self.n:
            error = value - self.sum / self.weight
            self.squares = 0.01 * (error * error) + 0.99 * self.squares
            self.squares_weight = 0.01 + 0.99 * self.squares_weight
        self.sum = 0.05 * value + 0.95 * self.sum
        self.weight = 0.05 + 0.95 * self.weight
        self.n += 1

    def predict(self, value):
        """Expected value (None for unknown) and score."""
        if self.n < 2:
            return None, 0.0
        expected = self.sum / self.weight
        deviation = max(math.sqrt(self.squares / self.squares_weight), 1e-9 * abs(expected))
        distance = abs(value - expected)
        return expected, 0.0 if distance == 0 else 1 / (1 + (4 * deviation / distance) ** 4)


@dataclass
class Settings:
    learn: str = "every_event"
    period: timedelta = timedelta(hours=1)
    emit: str = "changes"
    min_change: float = 0.2
    threshold: float = 0.9
    min_events: int = 0
    forget_after: timedelta = timedelta(days=30)


@dataclass
class Answer:
    output: list = field(default_factory=list)
    latest: dict = field(default_factory=dict)
    retired: list = field(default_factory=list)
    late: list = field(default_factory=list)
    in_models: int = 0
    waiting: int = 0
    unlearned: int = 0


@dataclass
class Batch:
    """Events that came together, and what time it was."""

    events: list
    processing_time: datetime
    watermark: datetime


@dataclass
class _Key:
    """What is known of a key in the course of batches; `frozen` is the model of the present period."""

    model: Ewma = field(default_factory=Ewma)
    frozen: Ewma = field(default_factory=Ewma)
    period: int | None = None
    last: datetime | None = None
    emitted: dict | None = None
    unlearned: list = field(default_factory=list)
    refresh_at: datetime | None = None

    def refresh(self):
        for _, value in sorted(self.unlearned):
            self.model.learn(value)
        self.unlearned, self.refresh_at = [], None


def answer(events, watermark, settings):
    """What the tables and the state are once the watermark is there; events are those that were not late."""
    return answer_in_batches([Batch(events, EPOCH, watermark)], settings)


def answer_in_batches(batches, settings, order="event_time", refresh_after=None):
    """The same after each batch, of jobs too whose answers depend on what came together, and when.

    Args:
        batches: the batches.
        settings: the settings; their way to learn is by event time.
        order: `event_time`, or `arrival`, in which nothing waits and nothing is late.
        refresh_after: how long values wait until they are learned; None: they are learned at once.
    """
    result, keys, waiting, previous_watermark = Answer(), {}, [], BEGINNING
    for batch in batches:
        for event in batch.events:
            if order == "event_time" and event["timestamp"] <= previous_watermark:
                result.late.append(event)
            else:
                waiting.append((event["key"], event["timestamp"], event["value"] + 0.0))
        previous_watermark = batch.watermark
        for known in keys.values():
            if known.refresh_at is not None and known.refresh_at <= batch.processing_time:
                known.refresh()
        due = sorted(one for one in waiting if order == "arrival" or _due(one[1], settings) <= batch.watermark)
        waiting = [one for one in waiting if one not in due]
        for place, (key, time, value) in enumerate(due):
            known = keys.get(key)
            if known is not None and time - known.last > settings.forget_after:
                _retire(key, keys, known.last + settings.forget_after, result)
            known = keys.setdefault(key, _Key())
            _begin_period(known, due[place:], settings)
            _judge(known, key, time, value, settings, result)
            if refresh_after is not None:
                known.unlearned.append((time, value))
                known.refresh_at = known.refresh_at or batch.processing_time + refresh_after
            elif settings.learn != "complete_window":
                known.model.learn(value)
        for key, known in list(keys.items()):
            silent_at = known.last + settings.forget_after
            goes_on = any(one[0] == key and one[1] <= silent_at for one in waiting)
            if silent_at <= batch.watermark and not goes_on:
                _retire(key, keys, silent_at, result)
    result.waiting = len(waiting)
    result.in_models = sum(known.model.n for known in keys.values())
    result.unlearned = sum(len(known.unlearned) for known in keys.values())
    return result


def _period(time, settings):
    return (time - EPOCH) // settings.period


def _due(time, settings):
    looks_back = settings.learn == "complete_window"
    return EPOCH + (_period(time, settings) + 1) * settings.period if looks_back else time


def _begin_period(known, due, settings):
    """Freeze the model where the first of these values begins a period; a complete window is learned before."""
    key, time, _ = due[0]
    period = _period(time, settings)
    if period == known.period:
        return
    for one in due if settings.learn == "complete_window" else ():
        if one[0] != key or _period(one[1], settings) != period or one[1] - time > settings.forget_after:
            break
        time = one[1]
        known.model.learn(one[2])
    known.period, known.frozen = period, copy.copy(known.model)


def _judge(known, key, time, value, settings, result):
    by = known.model if settings.learn == "every_event" else known.frozen
    expected, score = by.predict(value)
    if by.n < settings.min_events:
        score = 0.0
    row = {"key": key, "event_time": time, "value": value, "expected": expected, "score": score}
    row["label"] = "anomalous" if score > settings.threshold else "normal"
    row["events_learned"] = by.n
    before = known.emitted
    changes = before is None or row["label"] != before["label"] or abs(score - before["score"]) > settings.min_change
    if changes or settings.emit == "all":
        result.output.append({**row, "previous_label": before and before["label"]})
        known.emitted = row
    if known.last is None or time >= known.last:
        result.latest[key] = row
        known.last = time


def _retire(key, keys, retired_at, result):
    known = keys.pop(key)
    known.refresh()
    result.retired.append((key, known.model.n, known.last, retired_at))
