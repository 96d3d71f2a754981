"""Ingest that goes on: runs, one after the other, whenever a cheap look at the landing folder or topic shows that one is worth it."""

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from pyspark.sql import SparkSession

from keyfold.errors import KeyfoldError
from keyfold.ingestion.run import Landing, ingest_lock, ingest_under_lock
from keyfold.ingestion.sources.files import SETTLE, Listing, list_files
from keyfold.ingestion.sources.kafka.offsets import TopicState
from keyfold.ingestion.sources.kafka.outages import PAUSE, Outages, is_unreachable
from keyfold.ingestion.sources.kafka.topic import KafkaTopic, topic_state
from keyfold.ingestion.summary import IngestSummary, together
from keyfold.journal.checksums import NOW_AND_THEN
from keyfold.journal.clock import LOOK_EVERY
from keyfold.journal.progress import Progress
from keyfold.lakehouse import Lakehouse
from keyfold.session.gateway import check_java
from keyfold.sharing import check_sharing
from keyfold.storage.remote_path import RemotePath
from keyfold.stream import Stream

_FULL_LOOK = 10.0
"""Seconds after which a run looks at every file: one that was written over leaves its folder as it was."""

_TICK = 50_000_000
"""Nanoseconds: a folder's time of change is no finer than the kernel's tick, and two changes may have the same."""


def ingest_continuously(
    spark: SparkSession,
    lakehouse: Lakehouse,
    stream: Stream,
    landing: Landing | None = None,
    *,
    sharing: Sequence[Stream] = (),
    settle: timedelta = SETTLE,
    every: timedelta = LOOK_EVERY,
    stop: threading.Event | None = None,
    on_batch: Callable[[Progress], None] | None = None,
    on_outage: Callable[[str], None] | None = None,
) -> IngestSummary:
    """Ingest files as they land, or messages as they come, until told to stop; a run that is under way is finished.

    Where Kafka is away after the first run, it is waited for: what was planned is read when it is back.

    Args:
        spark, lakehouse, stream, landing, sharing, on_batch: as of `ingest`.
        settle: how long a file must have stayed as it is; 0 for producers that rename what is whole into the folder.
        every: from one look at the folder, or topic, to the next.
        stop: set to end it.
        on_outage: told once of each time that Kafka is away, and of its return.

    Raises:
        KeyfoldError: as `ingest`.
    """
    stop = stop or threading.Event()
    streams = check_sharing(sharing or [stream])
    with ingest_lock(lakehouse, streams, landing) as source:
        look, away = _look_at(source), Outages(on_outage)
        look.remember()
        summed: list[IngestSummary] = []
        # The first run is due whatever there is to see: one that broke off may have left something.
        is_due = True
        while True:
            try:
                if is_due or look.shows_news():
                    is_due = True
                    # Before the run: what lands while it lists the folder is seen by the next look.
                    look.remember()
                    run = ingest_under_lock(
                        spark,
                        lakehouse,
                        streams,
                        source,
                        settle=settle,
                        on_batch=on_batch,
                        checksums_every=NOW_AND_THEN,
                    )
                    is_due = False
                    if any(summary.waiting for summary in run):
                        look.remember_until(settle)
                    summed = [_added(*pair) for pair in zip(summed, run, strict=True)] if summed else run
                away.end()
            except KeyfoldError as error:
                # Before the first run somebody is there to see what is wrong.
                if not summed or not isinstance(source, KafkaTopic) or not is_unreachable(source, error):
                    raise
                away.begin(error)
            if stop.wait(PAUSE if away.goes_on else every.total_seconds()):
                break
            check_java()
    return together(summed, stream)


class _Look(Protocol):
    """Whether anything has come since it was last taken for seen."""

    def remember(self) -> None: ...

    def remember_until(self, settle: timedelta) -> None: ...

    def shows_news(self) -> bool: ...


def _look_at(source: Landing) -> _Look:
    if isinstance(source, KafkaTopic):
        return _TopicLook(source)
    return _ListingLook(source) if isinstance(source, RemotePath) else _FolderLook(source)


class _FolderLook:
    """Whether anything in a landing folder has come, by the times of change of its folders alone."""

    def __init__(self, landing: Path) -> None:
        self._landing = landing
        self._folders: dict[str, int | None] = {}
        self._looked_at = 0
        self._until = 0.0

    def remember(self) -> None:
        """Take the folder as it is for seen, for a while."""
        self._looked_at, self._until = time.time_ns(), time.monotonic() + _FULL_LOOK
        self._folders = {path: _changed_at(path) for path, _, _ in os.walk(self._landing)}

    def remember_until(self, settle: timedelta) -> None:
        """What is not whole yet may be after the settling time, though its folder stays as it is."""
        # A second at least: a folder that cannot be read counts as what is not whole, for as long as it is there.
        self._until = min(self._until, time.monotonic() + max(settle.total_seconds(), 1.0))

    def shows_news(self) -> bool:
        """Whether a run may find something."""
        if time.monotonic() >= self._until:
            return True
        now = time.time_ns()
        for folder, changed_at in self._folders.items():
            # A change within the tick in which the folder was looked at shows in no time of change: once more, then.
            hides = changed_at is not None and self._looked_at - changed_at < _TICK <= now - self._looked_at
            if hides or _changed_at(folder) != changed_at:
                return True
        return False


class _ListingLook:
    """Whether anything in a store's folder has come, by what it lists: a file that is written over has another tag, or time."""

    def __init__(self, landing: RemotePath) -> None:
        self._landing = landing
        self._seen: Listing | None = None
        self._found: Listing | None = None

    def remember(self) -> None:
        """Take the folder as it was at the last look for seen."""
        self._seen = self._found

    def remember_until(self, settle: timedelta) -> None:
        """Nothing: what waits in a bucket waits for its marker, which is listed as well."""

    def shows_news(self) -> bool:
        """Whether a run may find something."""
        self._found = list_files(self._landing)
        return self._found != self._seen


class _TopicLook:
    """Whether anything in a topic has come, by the ends of its partitions."""

    def __init__(self, topic: KafkaTopic) -> None:
        self._topic = topic
        self._seen: TopicState | None = None
        self._found: TopicState | None = None

    def remember(self) -> None:
        """Take the topic as it was at the last look for seen."""
        self._seen = self._found

    def remember_until(self, settle: timedelta) -> None:
        """What is in a topic is whole."""

    def shows_news(self) -> bool:
        """Whether a run may find something."""
        self._found = topic_state(self._topic)
        return self._found != self._seen


def _changed_at(folder: str) -> int | None:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return None  # gone, or not to be read: a run tells


def _added(so_far: IngestSummary, run: IngestSummary) -> IngestSummary:
    counts = ("files", "rows_read", "accepted", "quarantined", "duplicates", "untimed", "batches", "seconds")
    return replace(
        run,
        **{name: getattr(so_far, name) + getattr(run, name) for name in counts},
        changed={**so_far.changed, **run.changed},
        warnings=tuple(dict.fromkeys([*so_far.warnings, *run.warnings])),
    )
