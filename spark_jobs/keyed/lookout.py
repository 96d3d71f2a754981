"""When a continuous run plans next: when events have come, when a timer of processing time is due, or after a second.

A look costs next to nothing, so that it can be had twenty times a second; to plan is to read the journal and to move the
clock, so once a second does where nothing came: it sees a stream that has fallen silent.
"""

import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from spark_jobs.keyed.records import KeyedDone
from spark_jobs.lakehouse.changes import LogGoneError, latest_version

LONGEST_WAIT = timedelta(seconds=1)


def wait_for_news(
    table: Path, name: str, done: KeyedDone | None, stop: threading.Event, every: timedelta, planned_at: float
) -> bool:
    """Wait until there is reason to plan; gives False if told to stop.

    Args:
        table: the event table.
        name: what the journal calls it.
        done: the last batch.
        stop: set to end the run.
        every: from one look to the next.
        planned_at: when the run last planned, by the clock that never goes back.
    """
    longest = planned_at + LONGEST_WAIT.total_seconds()
    while not stop.is_set():
        if _has_come(table, done.positions.get(name) if done else None) or _is_due(done) or time.monotonic() >= longest:
            return True
        stop.wait(_pause(done, every, longest - time.monotonic()))
    return False


def _has_come(table: Path, position: int | None) -> bool:
    if position is None:
        return False
    try:
        return latest_version(table, position) > position
    except LogGoneError:
        return True  # planning says what is wrong


def _is_due(done: KeyedDone | None) -> bool:
    return done is not None and done.next_stale_at is not None and done.next_stale_at <= datetime.now(UTC)


def _pause(done: KeyedDone | None, every: timedelta, longest: float) -> float:
    """Until the next look: sooner, if a timer is due before."""
    pause = min(every.total_seconds(), longest)
    if done is not None and done.next_stale_at is not None:
        pause = min(pause, (done.next_stale_at - datetime.now(UTC)).total_seconds())
    return max(pause, 0.0)
