"""Keys whose events are worked on one after the other, in order of time, in plain Python: what jobs must agree with.

`InOrder` is fed run by run: an event waits until the watermark has passed it, and a key may fall silent in processing time. What
an event does to its key a machine says, one for each key.
"""

import copy
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

Event = dict[str, Any]
Rows = list[dict[str, Any]]
BEGINNING = datetime(1, 1, 1, tzinfo=UTC)
NEVER = timedelta(days=365_000)


@dataclass(frozen=True)
class Run:
    """What comes in a run.

    Attributes:
        now: its processing time.
        events: the events, in the order in which they came.
        before: the watermark before it.
        after: the watermark after it.
        delay: how far the watermark stays behind the newest event.
    """

    now: datetime
    events: list[Event]
    before: datetime
    after: datetime
    delay: timedelta


def runs_of(
    batches: Sequence[list[Event]], times: Sequence[datetime], time: str, delay: timedelta, end: datetime | None
) -> Iterator[Run]:
    """The runs of batches at their times, whose events say when they were; with `end` a last one without events."""
    before = BEGINNING
    for now, events in zip(times, batches, strict=True):
        after = max([before, *(event[time] - delay for event in events)])
        yield Run(now, events, before, after, delay)
        before = after
    if end is not None:
        yield Run(times[-1], [], before, max(before, end), delay)


class InOrder:
    """A machine for each key: it sees events, waits until watermarks, and falls silent.

    Args:
        machine: makes one.
        key: column of the key.
        time: column of the event time.
        order: by what simultaneous events are ordered.
        silence: processing time in which a key falls silent; None: silences are of event time, and the machine's.
        at_once: whether events are worked on as they come, and not when the watermark has passed them.
        refuses: whether an event at or behind the watermark before its run is late.
    """

    def __init__(
        self,
        machine: Callable[[], Any],
        key: str,
        time: str,
        order: Callable[[Event], tuple],
        *,
        silence: timedelta | None = None,
        at_once: bool = False,
        refuses: bool = True,
    ) -> None:
        self.machine, self.key, self.time, self.order = machine, key, time, order
        self.silence, self.at_once, self.refuses = silence, at_once, refuses
        self.machines: dict[str, Any] = {}
        self.waiting: dict[str, list[Event]] = defaultdict(list)
        self.heard_at: dict[str, datetime] = {}
        self.late: list[Event] = []

    def run(self, run: Run) -> None:
        if self.silence is not None:
            for key in [key for key, at in self.heard_at.items() if at + self.silence <= run.now]:
                self._work(key, self.waiting.pop(key, []))
                self.machines.pop(key).fall_silent()
                del self.heard_at[key]
        for event in run.events:
            if self.refuses and event[self.time] <= run.before:
                self.late.append(event)
                continue
            self.machines.setdefault(event[self.key], self.machine())
            self.waiting[event[self.key]].append(event)
            self.heard_at[event[self.key]] = run.now
        for key, machine in self.machines.items():
            events = self.waiting[key]
            self.waiting[key] = [one for one in events if not self.at_once and one[self.time] > run.after]
            self._work(key, [one for one in events if self.at_once or one[self.time] <= run.after])
            machine.wait_until(run.after)

    def coming(self, key: str) -> Any:
        """The machine of a key once what waits of it is worked on."""
        one = copy.deepcopy(self)
        one._work(key, one.waiting[key])
        return one.machines[key]

    def _work(self, key: str, events: list[Event]) -> None:
        for event in sorted(events, key=lambda one: (one[self.time], *self.order(one))):
            self.machines[key].see(event)


def told(event: Event, *columns: str) -> tuple:
    """What an event says, by which it is ordered: what is missing is before what is there."""
    return tuple((event[name] is not None, event[name] or 0) for name in columns)


class Lives:
    """A key that expires in a silence: of each event the life that it is in, and its place there."""

    def __init__(self, told: list[tuple[list[Event], int, Event]], after: timedelta = NEVER) -> None:
        self.told, self.after = told, after
        self.life: list[Event] = []

    def see(self, event: Event) -> None:
        if self.life and event["time"] - self._last() > self.after:
            self.life = []
        self.told.append((self.life, len(self.life), event))
        self.life.append(event)

    def wait_until(self, watermark: datetime) -> None:
        if self.life and self._last() + self.after <= watermark:
            self.life = []

    def fall_silent(self) -> None:
        self.life = []

    def _last(self) -> datetime:
        return max(event["time"] for event in self.life)


class Averages:
    """The last readings of a station, and the sessions that a silence ends."""

    def __init__(self, averages: Rows, sessions: Rows, length: int, at_least: int, timeout: timedelta = NEVER) -> None:
        self.averages, self.sessions = averages, sessions
        self.length, self.at_least, self.timeout = length, at_least, timeout
        self.session: list[Event] = []

    def see(self, reading: Event) -> None:
        if self.session and reading["time"] - self.session[-1]["time"] > self.timeout:
            self.fall_silent()
        self.session.append(reading)
        if len(self.session) >= self.at_least:
            window = self.session[-self.length :]
            self.averages.append(self._row(window, "FULL" if len(window) == self.length else "FILLING"))

    def wait_until(self, watermark: datetime) -> None:
        if self.session and self.session[-1]["time"] + self.timeout <= watermark:
            self.fall_silent()

    def fall_silent(self) -> None:
        if self.session:
            row = self._row(self.session, "")
            if len(self.session) < self.at_least:
                self.averages.append(row)
            self.sessions.append({name: value for name, value in row.items() if not name.endswith("_avg")})
        self.session = []

    def _row(self, window: list[Event], reason: str) -> dict[str, Any]:
        return {
            "station_id": window[0]["station_id"],
            "start_time": window[0]["time"],
            "end_time": window[-1]["time"],
            **{f"{column}_avg": _mean([reading[column] for reading in window]) for column in ("pressure", "temp")},
            "n_readings": len(window),
            "reason": f"WINDOW_{reason}" if reason else "TIMEOUT",
        }


def _mean(values: list[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return math.fsum(there) / len(there) if there else None
