"""Anomaly predictions by their definition, in plain Python, one key and one event after the other."""

import copy
import math
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise

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
    in_models: int = 0
    waiting: int = 0


def answer(events, watermark, settings):
    """What the tables and the state are once the watermark is there; events are those that were not late."""
    result = Answer()
    by_key = defaultdict(list)
    for event in events:
        by_key[event["key"]].append((event["timestamp"], event["value"]))
    for key, values in sorted(by_key.items()):
        for life in _lives(sorted(values), settings.forget_after):
            _live(key, life, watermark, settings, result)
    return result


def _lives(values, forget_after):
    lives = [[values[0]]]
    for before, value in pairwise(values):
        if value[0] - before[0] > forget_after:
            lives.append([])
        lives[-1].append(value)
    return lives


def _period(time, length):
    return (time - EPOCH) // length


def _live(key, values, watermark, settings, result):
    looks_back = settings.learn == "complete_window"
    if looks_back:
        ready = [v for v in values if EPOCH + (_period(v[0], settings.period) + 1) * settings.period <= watermark]
    else:
        ready = [v for v in values if v[0] <= watermark]
    result.waiting += len(values) - len(ready)
    model, frozen, now, emitted = Ewma(), Ewma(), None, None
    for place, (time, value) in enumerate(ready):
        period = _period(time, settings.period)
        if looks_back and period != now:
            for later, number in ready[place:]:
                if _period(later, settings.period) == period:
                    model.learn(number)
        if period != now:
            frozen = copy.copy(model)
        now = period
        by = model if settings.learn == "every_event" else frozen
        expected, score = by.predict(value)
        if by.n < settings.min_events:
            score = 0.0
        row = {"key": key, "event_time": time, "value": value, "expected": expected, "score": score}
        row["label"] = "anomalous" if score > settings.threshold else "normal"
        row["events_learned"] = by.n
        result.latest[key] = row
        changes = emitted is None or (
            row["label"] != emitted["label"] or abs(score - emitted["score"]) > settings.min_change
        )
        if changes or settings.emit == "all":
            result.output.append({**row, "previous_label": emitted and emitted["label"]})
            emitted = row
        if not looks_back:
            model.learn(value)
    if not ready:
        return
    last = ready[-1][0]
    goes_on = len(ready) < len(values)
    if last + settings.forget_after <= watermark and not goes_on:
        result.retired.append((key, model.n, last, last + settings.forget_after))
    else:
        result.in_models += model.n


@dataclass
class _Key:
    """What is known of a key in the course of batches."""

    model: Ewma = field(default_factory=Ewma)
    last: datetime | None = None
    emitted: dict | None = None
    unlearned: list = field(default_factory=list)
    refresh_at: datetime | None = None

    def refresh(self):
        for _, value in sorted(self.unlearned):
            self.model.learn(value)
        self.unlearned, self.refresh_at = [], None


@dataclass
class Batch:
    """Events that came together, and what time it was."""

    events: list
    processing_time: datetime
    watermark: datetime


@dataclass
class Answers(Answer):
    late: list = field(default_factory=list)
    unlearned: int = 0


def answer_in_batches(batches, settings, order, refresh_after=None):
    """The same of jobs whose answers depend on what came together, and when; `refresh_after` None: learned at once."""
    result, keys, waiting, previous_watermark = Answers(), {}, [], BEGINNING
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
        due = sorted(one for one in waiting if order == "arrival" or one[1] <= batch.watermark)
        waiting = [one for one in waiting if one not in due]
        for key, time, value in due:
            known = keys.get(key)
            if known is not None and time - known.last > settings.forget_after:
                _retire(key, keys, known.last + settings.forget_after, result)
            known = keys.setdefault(key, _Key())
            _hear(known, (key, time, value), settings, result, refresh_after, batch.processing_time)
        for key, known in list(keys.items()):
            silent_at = known.last + settings.forget_after
            goes_on = any(one[0] == key and one[1] <= silent_at for one in waiting)
            if silent_at <= batch.watermark and not goes_on:
                _retire(key, keys, silent_at, result)
    result.waiting = len(waiting)
    result.in_models = sum(known.model.n for known in keys.values())
    result.unlearned = sum(len(known.unlearned) for known in keys.values())
    return result


def _hear(known, event, settings, result, refresh_after, now):
    key, time, value = event
    _judge(known, key, time, value, settings, result)
    if refresh_after is None:
        known.model.learn(value)
    else:
        known.unlearned.append((time, value))
        known.refresh_at = known.refresh_at or now + refresh_after


def _judge(known, key, time, value, settings, result):
    expected, score = known.model.predict(value)
    if known.model.n < settings.min_events:
        score = 0.0
    row = {"key": key, "event_time": time, "value": value, "expected": expected, "score": score}
    row["label"] = "anomalous" if score > settings.threshold else "normal"
    row["events_learned"] = known.model.n
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
