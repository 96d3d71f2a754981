"""Decide when a continuous run plans next: on new events, when a processing-time deadline is due, or after a second.

A look at the tables is cheap, and is made twenty times a second. Planning reads the journal and writes the clock. Without new
events it is done once a second, to advance event time on a silent stream.
"""

import threading
import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from keyfold.keyed.generation.batch_records import KeyedDone
from keyfold.lakehouse.positions import Position, has_version
from keyfold.storage.place import Place

LONGEST_WAIT = timedelta(seconds=1)
"""Longest time between two plans."""


class LastPlanned(NamedTuple):
    """The time when a run last planned.

    Attributes:
        at: by the monotonic clock, in seconds.
        processing_time: the processing time of the plan. The machine's clock may have jumped since.
    """

    at: float
    processing_time: datetime

    def now(self) -> datetime:
        """Return the current processing time."""
        return self.processing_time + timedelta(seconds=time.monotonic() - self.at)


def wait_for_news(
    tables: Mapping[str, Place],
    done: KeyedDone | None,
    stop: threading.Event,
    every: timedelta,
    last: LastPlanned | None,
) -> bool:
    """Wait until the run has to plan; returns False when `stop` is set.

    Args:
        tables: the folders of the job's input tables, by name.
        done: the last commit record.
        stop: ends the run when it is set.
        every: interval between two looks.
        last: when the run last planned; None if it has not planned yet, and must plan now.
    """
    while not stop.is_set():
        positions = done.positions if done else {}
        if last is None or any(_has_news(table, positions.get(name)) for name, table in tables.items()):
            return True
        pause = _until_next_reason(done, last)
        if pause <= timedelta(0):
            return True
        stop.wait(min(every, pause).total_seconds())
    return False


def _has_news(table: Place, position: Position | None) -> bool:
    # Only looks for the next log entry: planning checks that the table is still the same and its log has no gap.
    return position is not None and has_version(table, position.version + 1)


def _until_next_reason(done: KeyedDone | None, last: LastPlanned) -> timedelta:
    """Return the time until a timer is due, or until the longest wait has passed."""
    # Deadlines in event time need no look of their own: event time advances by new events, or by a plan.
    longest = timedelta(seconds=last.at - time.monotonic()) + LONGEST_WAIT
    if done is None or done.next_stale_at is None:
        return longest
    return min(longest, done.next_stale_at - last.now())
