"""Keys that expire, in plain Python, one event at a time: to which life of its key each belongs, and when."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

Event = dict


@dataclass
class Life:
    """Events of a key from one expiry to the next, in the order in which they were worked on."""

    events: list[Event] = field(default_factory=list)

    @property
    def last(self) -> datetime:
        return max(event["time"] for event in self.events)


class Expiring:
    """A job whose keys expire, fed run by run.

    Args:
        after: silence that ends a life.
        in_processing_time: whether that is between runs, or between two events.
        delay: how far the watermark stays behind the newest event.
        at_once: whether events are worked on as they come, or when the watermark has passed them.
        order: by what events of a key are put in order.
    """

    def __init__(
        self,
        after: timedelta,
        *,
        in_processing_time: bool,
        delay: timedelta,
        at_once: bool,
        order: Callable[[Event], tuple],
    ) -> None:
        self.after, self.in_processing_time, self.delay, self.at_once = after, in_processing_time, delay, at_once
        self.order = order
        self.watermark = datetime(1, 1, 1, tzinfo=UTC)
        self.lives: dict[str, Life] = {}
        self.waiting: dict[str, list[Event]] = {}
        self.heard_at: dict[str, datetime] = {}
        self.told: list[tuple[Life, int, Event]] = []
        """Of each event that was worked on: its life, its place there, and the event."""

    def run(self, now: datetime, events: list[Event]) -> None:
        if self.in_processing_time:
            for key in [key for key, at in self.heard_at.items() if at + self.after <= now]:
                self._work(key, self.waiting.pop(key, []))
                self.lives.pop(key, None)
                del self.heard_at[key]
        for event in events:
            self.waiting.setdefault(event["item"], []).append(event)
            self.heard_at[event["item"]] = now
        self.watermark = max([self.watermark, *(event["time"] - self.delay for event in events)])
        for key, waiting in self.waiting.items():
            due = [event for event in waiting if self.at_once or event["time"] <= self.watermark]
            self._work(key, due)
            waiting[:] = [event for event in waiting if not self.at_once and event["time"] > self.watermark]
        if not self.in_processing_time:
            for key in [key for key, life in self.lives.items() if life.last + self.after <= self.watermark]:
                del self.lives[key]

    def coming(self, key: str) -> Life:
        """The life that a key has once what waits of it is worked on."""
        one = copy.deepcopy(self)
        one._work(key, one.waiting.get(key, []))
        return one.lives[key]

    def kept(self) -> list[str]:
        """The keys of which anything is kept."""
        return sorted({*self.lives, *(key for key, waiting in self.waiting.items() if waiting)})

    def _work(self, key: str, events: list[Event]) -> None:
        for event in sorted(events, key=self.order):
            life = self.lives.get(key)
            if life is not None and not self.in_processing_time and event["time"] - life.last > self.after:
                life = None
            life = self.lives[key] = life or Life()
            self.told.append((life, len(life.events), event))
            life.events.append(event)
