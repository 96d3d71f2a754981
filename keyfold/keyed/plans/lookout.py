"""When a continuous run plans next: when events have come, when a timer of processing time is due, or after a second.

A look costs next to nothing, so that it can be had twenty times a second; to plan is to read the journal and to move the
clock, so once a second does where nothing came: it sees a stream that has fallen silent.
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


class LastPlanned(NamedTuple):
    """When a run last planned.

    Attributes:
        at: by the clock that never goes back.
        processing_time: that it was then. The machine's own clock may have jumped, and is not followed.
    """

    at: float
    processing_time: datetime

    def now(self) -> datetime:
        """The processing time that it is by now."""
        return self.processing_time + timedelta(seconds=time.monotonic() - self.at)


def wait_for_news(
    tables: Mapping[str, Place],
    done: KeyedDone | None,
    stop: threading.Event,
    every: timedelta,
    last: LastPlanned | None,
) -> bool:
    """Wait until there is reason to plan; gives False if told to stop.

    Args:
        tables: the folders of the tables that the job reads, by name.
        done: the last batch.
        stop: set to end the run.
        every: from one look to the next.
        last: when the run last planned; None: not yet, which is reason enough.
    """
    while not stop.is_set():
        positions = done.positions if done else {}
        if last is None or any(_has_come(table, positions.get(name)) for name, table in tables.items()):
            return True
        pause = _until_next_reason(done, last)
        if pause <= timedelta(0):
            return True
        stop.wait(min(every, pause).total_seconds())
    return False


def _has_come(table: Place, position: Position | None) -> bool:
    # A look at one name: that the table is still the same, and its log without a gap, planning checks.
    return position is not None and has_version(table, position.version + 1)


def _until_next_reason(done: KeyedDone | None, last: LastPlanned) -> timedelta:
    """Until a timer is due, or for as long as a run waits at most."""
    longest = timedelta(seconds=last.at - time.monotonic()) + LONGEST_WAIT
    if done is None or done.next_stale_at is None:
        return longest
    return min(longest, done.next_stale_at - last.now())
