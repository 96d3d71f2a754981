"""Run continuous ingest: start a run whenever a cheap look at the landing folder or topic shows changes.

It maintains its tables meanwhile, and can serve its health and metrics.
"""

import os
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from keyfold.errors import KeyfoldError
from keyfold.ingestion import IngestSummary, Landing
from keyfold.ingestion.ingest_records import added
from keyfold.ingestion.ingest_run import ingest_under_lock
from keyfold.ingestion.kafka.offsets import TopicState
from keyfold.ingestion.kafka.topic import PAUSE, KafkaTopic, is_unreachable, topic_state
from keyfold.ingestion.listing import SETTLE, Listing, list_files
from keyfold.ingestion.run import ingest_lineage, ingest_lock
from keyfold.journal.checksums import NOW_AND_THEN
from keyfold.journal.clock import LOOK_EVERY
from keyfold.journal.records import Progress
from keyfold.lakehouse import Lakehouse
from keyfold.maintenance.recording import record_ingest
from keyfold.open_lineage import EVERY
from keyfold.runners import Runners
from keyfold.runs.health import health_of_stream
from keyfold.runs.metrics import served
from keyfold.runs.reporting import reported, written_by_ingest
from keyfold.runs.table_maintenance import TableMaintenance, tables_of_ingest
from keyfold.storage.entries import folders_in
from keyfold.storage.place import local_path
from keyfold.stream import Stream


def ingest_continuously(
    lakehouse: Lakehouse,
    stream: Stream,
    landing: Landing | None = None,
    *,
    settle: timedelta = SETTLE,
    every: timedelta = LOOK_EVERY,
    stop: threading.Event | None = None,
    on_batch: Callable[[Progress], None] | None = None,
    metrics: str | None = None,
    on_warning: Callable[[str], None] | None = None,
    runners: Runners | None = None,
) -> IngestSummary:
    """Ingest files or messages as they arrive, until `stop` is set; the batch in progress is finished first.

    The small files of the stream's tables are compacted regularly. If Kafka becomes unreachable after the first run, ingest
    waits for it. If DAGSTER_HOME is set, Dagster shows what was written (`keyfold.runs.reporting`).

    Args:
        lakehouse, stream, landing, on_batch, runners: as in `ingest`.
        settle: how long a file must be unchanged before it is read; 0 for producers that rename whole files into the folder.
        every: interval between two looks at the folder or topic.
        stop: ends the ingest when it is set.
        metrics: where `/health` and `/metrics` are served: a port of 127.0.0.1, or ADDRESS:PORT; None serves nothing.
        on_warning: called when Kafka cannot be reached or answers again, and when maintenance of a table
            or a report to Dagster or a catalog failed.

    Raises:
        KeyfoldError: as `ingest`; or the address is taken.

    Example:
        >>> import threading, keyfold
        >>> from spark_jobs.streams import STREAMS
        >>> stop = threading.Event()
        >>> ingest_continuously(lakehouse, STREAMS["rides"], stop=stop)  # doctest: +SKIP
    """
    runners = runners or Runners.from_environment()
    maintenance = TableMaintenance(
        lakehouse,
        lambda: tables_of_ingest(lakehouse, stream),
        lambda: record_ingest(lakehouse, stream.name),
        on_warning=on_warning,
    )

    def after_batch(progress: Progress) -> None:
        if on_batch is not None:
            on_batch(progress)
        maintenance.after_batch()

    with (
        maintenance,
        served(metrics, lambda: health_of_stream(lakehouse, stream.name)),
        reported(lambda: written_by_ingest(lakehouse, stream), on_warning),
        ingest_lock(lakehouse, stream, landing) as source,
        ingest_lineage(lakehouse, stream, source, on_warning, EVERY),
    ):
        how = {"settle": settle, "on_batch": after_batch, "checksums_every": NOW_AND_THEN}
        look, away_since, report = _look_at(source), None, on_warning or (lambda text: None)
        stop, summed = stop or threading.Event(), None
        # The first run is always due: an interrupted run may have left work.
        is_due = True
        while True:
            try:
                if is_due or look.shows_news():
                    # Until a run has succeeded: after an outage it is repeated, also without further changes.
                    is_due = True
                    # Before the run, so that the next look sees files that land while the run lists the folder.
                    look.remember()
                    run = ingest_under_lock(runners, lakehouse, stream, source, **how)
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
            if stop.wait(every.total_seconds() if away_since is None else PAUSE) and summed is not None:
                return summed
            # While waiting, nothing calls Java, so that its end would go unnoticed.
            runners.check_alive()


_FULL_LOOK = 10.0
"""Seconds after which a run checks every file, since overwriting a file does not change its folder."""

_TICK = 50_000_000
"""Nanoseconds. Modification times are only as fine as the kernel's tick, so two changes may have the same time."""


def _look_at(source: Landing) -> "_FolderLook | _ListingLook":
    if isinstance(source, KafkaTopic):
        return _ListingLook(lambda: topic_state(source))
    folder = local_path(source)
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
