"""Continuous ingest: start a run whenever a cheap check of the landing folder or topic shows changes."""

import os
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from keyfold.errors import KeyfoldError
from keyfold.ingestion.ingest_records import IngestSummary, added
from keyfold.ingestion.kafka.offsets import TopicState
from keyfold.ingestion.kafka.topic import PAUSE, KafkaTopic, is_unreachable, topic_state
from keyfold.ingestion.listing import Landing, Listing, list_files
from keyfold.ingestion.run import ingest_lock
from keyfold.lakehouse import Lakehouse
from keyfold.runners import Runners
from keyfold.storage.place import local_path
from keyfold.stream import Stream

_FULL_LOOK = 10.0
"""Seconds after which a run checks every file, since overwriting a file does not change its folder."""

_TICK = 50_000_000
"""Nanoseconds. Modification times are only as fine as the kernel's tick, so two changes may have the same time."""


def follow_landing(
    lakehouse: Lakehouse,
    stream: Stream,
    landing: Landing | None,
    ingest: Callable[[Landing], IngestSummary],
    runners: Runners,
    *,
    settle: timedelta,
    every: timedelta,
    stop: threading.Event,
    on_outage: Callable[[str], None] | None = None,
) -> IngestSummary:
    """Ingest files and messages as they arrive, until `stop` is set. A run in progress is finished first.

    If Kafka becomes unreachable after the first run, wait for it and then read what was planned.

    Args:
        stream: the stream.
        landing: the folder or topic; None for the stream's landing folder.
        ingest: ingests everything new in the folder or topic; called under the lock of the stream's ingest.
        runners: those of the ingest.
        settle: time since the last change after which a file is complete.
        every: interval between checks of the folder or topic.
        stop: event that ends the ingest.
        on_outage: called once when Kafka becomes unreachable, and once when it is back.

    Returns:
        The summary of all runs.

    Raises:
        KeyfoldError: as `ingest`, for the first run.
    """
    with ingest_lock(lakehouse, stream, landing) as source:
        look, away_since, report = _look_at(source), None, on_outage or (lambda text: None)
        look.remember()
        summed: IngestSummary | None = None
        # The first run is always due: an interrupted run may have left work.
        is_due = True
        while True:
            try:
                if is_due or look.shows_news():
                    # Until a run has succeeded: after an outage it is repeated, also without further changes.
                    is_due = True
                    # Before the run, so that the next check sees files that land while the run lists the folder.
                    look.remember()
                    run = ingest(source)
                    is_due = False
                    if run.waiting:
                        look.remember_until(settle)
                    summed = added(summed, run) if summed else run
                if away_since is not None:
                    seconds = time.monotonic() - away_since
                    report(f"Kafka is back after {seconds:.0f} s: ingest continues where it stopped")
                away_since = None
            except KeyfoldError as error:
                # A failure of the first run is raised: somebody has just started it and can correct it.
                if summed is None or not isinstance(source, KafkaTopic) or not is_unreachable(source, error):
                    raise
                if away_since is None:
                    away_since = time.monotonic()
                    report(f"{error}. Ingest waits for it")
            if stop.wait(every.total_seconds() if away_since is None else PAUSE):
                break
            # While waiting, nothing calls Java, so that its end would go unnoticed.
            runners.check_alive()
    assert summed is not None  # noqa: S101 - the first run has succeeded, or raised
    return summed


class _Look(Protocol):
    """Detects changes of a source since the last `remember`."""

    def remember(self) -> None: ...

    def remember_until(self, settle: timedelta) -> None: ...

    def shows_news(self) -> bool: ...


def _look_at(source: Landing) -> _Look:
    if isinstance(source, KafkaTopic):
        return _ListingLook(lambda: topic_state(source))
    folder = local_path(source)
    return _ListingLook(lambda: list_files(source)) if folder is None else _FolderLook(folder)


class _FolderLook:
    """Detects changes of a landing folder by the modification times of its folders alone."""

    def __init__(self, landing: Path) -> None:
        self._landing = landing
        self._folders: dict[str, int | None] = {}
        self._looked_at = 0
        self._until = 0.0

    def remember(self) -> None:
        """Remember the current state. After `_FULL_LOOK` seconds, changes are assumed."""
        self._looked_at, self._until = time.time_ns(), time.monotonic() + _FULL_LOOK
        self._folders = {path: _changed_at(path) for path, _, _ in os.walk(self._landing)}

    def remember_until(self, settle: timedelta) -> None:
        """Assume changes after the settling time: waiting files become complete without a change of their folder."""
        # At least a second: an unreadable folder counts as waiting for as long as it exists.
        self._until = min(self._until, time.monotonic() + max(settle.total_seconds(), 1.0))

    def shows_news(self) -> bool:
        """Whether a run may find new files."""
        if time.monotonic() >= self._until:
            return True
        now = time.time_ns()
        for folder, changed_at in self._folders.items():
            # A change within the same tick as the last check does not show in the modification time: assume one.
            hides = changed_at is not None and self._looked_at - changed_at < _TICK <= now - self._looked_at
            if hides or _changed_at(folder) != changed_at:
                return True
        return False


class _ListingLook:
    """Detects changes by the listing of a store's folder, or by the end offsets of a topic's partitions.

    An overwritten file has another tag or time.
    """

    def __init__(self, look: Callable[[], Listing | TopicState]) -> None:
        self._look = look
        self._seen: Listing | TopicState | None = None
        self._current: Listing | TopicState | None = None

    def remember(self) -> None:
        """Remember the state of the last check."""
        self._seen = self._current

    def remember_until(self, settle: timedelta) -> None:
        """Do nothing: files wait only for their markers, which the listing shows, and messages are always complete."""

    def shows_news(self) -> bool:
        """Whether the listing or the offsets have changed."""
        self._current = self._look()
        return self._current != self._seen


def _changed_at(folder: str) -> int | None:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return None  # removed or unreadable: the next run reports it
