"""Look cheaply whether a landing folder or a topic has changed, so that a continuous ingest starts a run."""

import os
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from keyfold.ingestion.kafka.offsets import TopicState
from keyfold.ingestion.kafka.topic import KafkaTopic, topic_state
from keyfold.ingestion.listing import Landing, Listing, list_files
from keyfold.storage.entries import folders_in

_FULL_LOOK = 10.0
"""Seconds after which a run checks every file, since overwriting a file does not change its folder."""

_TICK = 50_000_000
"""Nanoseconds. Modification times are only as fine as the kernel's tick, so two changes may have the same time."""


def changes_of(source: Landing) -> "_FolderLook | _ListingLook":
    """Return what looks for changes of a landing folder or topic."""
    if isinstance(source, KafkaTopic):
        return _ListingLook(lambda: topic_state(source))
    folder = source.local_path
    return _ListingLook(lambda: list_files(source)) if folder is None else _FolderLook(folder)


class _FolderLook:
    """Detects changes of a landing folder by the modification times of its folders alone."""

    def __init__(self, landing: Path) -> None:
        self._landing = landing
        self._folders: dict[Path, int | None] = {}
        self._looked_at = 0
        self._until = 0.0

    def remember(self) -> None:
        """Remember the current state. After `_FULL_LOOK` seconds, changes are assumed."""
        self._looked_at, self._until = time.time_ns(), time.monotonic() + _FULL_LOOK
        self._folders = {folder: _changed_at(folder) for folder in folders_in(self._landing)}

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


def _changed_at(folder: Path) -> int | None:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return None  # removed or unreadable: the next run reports it
