"""Patterns over a list, in plain Python: written from what the vocabulary promises, and not from how it is done."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

Event = dict[str, Any]
Match = tuple[Event, Event | None]


@dataclass(frozen=True)
class Spelled:
    """A pattern with Python functions for conditions; `n` is of `times`, `where` takes `a` and `b`.

    Attributes:
        kind: `followed_by`, `next`, `without` or `times`.
    """

    kind: str
    a: Callable[[Event], bool]
    within: timedelta
    b: Callable[[Event], bool] = lambda _: True
    where: Callable[[Event, Event], bool] = lambda _, __: True
    n: int = 0


def in_order(events: Iterable[Event], key: str, time: str, columns: Iterable[str]) -> dict[Any, list[Event]]:
    """The events of each key by time, and those of one moment by their other columns, None before anything."""
    ties = [name for name in columns if name not in (key, time)]
    keyed: dict[Any, list[Event]] = defaultdict(list)
    for event in events:
        keyed[event[key]].append(event)
    for events_of_key in keyed.values():
        events_of_key.sort(key=lambda e: (e[time], [(e[name] is not None, e[name]) for name in ties]))
    return keyed


def matches(pattern: Spelled, events: list[Event], time: str, end: datetime) -> list[Match]:
    """The matches in the events of one key, which stand in order, when event time is `end`."""
    found: list[Match] = []
    for at, first in enumerate(events):
        if not pattern.a(first):
            continue
        later = events[at + 1 :]
        if pattern.kind == "times":
            more = [event for event in later if pattern.a(event)][: pattern.n - 1]
            if len(more) == pattern.n - 1 and more[-1][time] - first[time] <= pattern.within:
                found.append((first, more[-1]))
            continue
        answers = [event for event in later if pattern.b(event)]
        if pattern.kind == "next":
            answers = answers[:1]
        fitting = [
            event for event in answers if event[time] - first[time] <= pattern.within and pattern.where(first, event)
        ]
        if pattern.kind == "without":
            if not fitting and first[time] + pattern.within <= end:
                found.append((first, None))
        elif fitting:
            found.append((first, fitting[0]))
    return found
