"""Patterns over a list, in plain Python: written from what the vocabulary promises, and not from how it is done."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

Event = dict[str, Any]
Spelled = list[tuple[str, Callable[[Event], bool], Callable[..., bool]]]
"""Steps: `then`, `next` or `without`, its condition, and its `where` of the event and those of all earlier steps."""


def in_order(events: Iterable[Event], key: str, time: str, columns: Iterable[str]) -> dict[Any, list[Event]]:
    """The events of each key by time, and those of one moment by their other columns, None before anything."""
    ties = [name for name in columns if name not in (key, time)]
    keyed: dict[Any, list[Event]] = defaultdict(list)
    for event in events:
        keyed[event[key]].append(event)
    for events_of_key in keyed.values():
        events_of_key.sort(key=lambda e: (e[time], [(e[name] is not None, e[name]) for name in ties]))
    return keyed


def matches(steps: Spelled, within: timedelta, events: list[Event], time: str, end: datetime) -> list[list[Event]]:
    """The events of each match in the events of one key, which stand in order, when event time is `end`."""
    found: list[list[Event]] = []
    for at, first in enumerate(events):
        if not steps[0][1](first):
            continue
        match, place = [first], at
        for kind, condition, where in steps[1:]:
            answer = None
            for later in range(place + 1, len(events)):
                if condition(events[later]):
                    if events[later][time] - first[time] <= within and where(events[later], *match):
                        answer = later
                    if answer is not None or kind == "next":
                        break
            if kind == "without":
                if answer is None and first[time] + within <= end:
                    found.append(match)
                break
            if answer is None:
                break
            match, place = [*match, events[answer]], answer
        else:
            found.append(match)
    return found
