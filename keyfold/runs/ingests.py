"""Ingest a stream: once, or continuously, with a run whenever a cheap look at the landing folder or topic shows changes.

A continuous ingest maintains its tables meanwhile, and can serve its health and metrics.
"""

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from keyfold.errors import KeyfoldError, Misconfigured
from keyfold.ingestion.ingest_lock import ingest_lock
from keyfold.ingestion.ingest_plans import MAX_BYTES_PER_BATCH
from keyfold.ingestion.ingest_records import IngestSummary, added
from keyfold.ingestion.ingest_run import ingest_under_lock
from keyfold.ingestion.kafka.topic import PAUSE, KafkaTopic, is_unreachable
from keyfold.ingestion.listing import SETTLE, Landing
from keyfold.journal.clock import LOOK_EVERY
from keyfold.journal.records import Progress
from keyfold.lakehouse import Lakehouse
from keyfold.open_lineage import EVERY, Dataset, lineage_reported
from keyfold.runners import Runners
from keyfold.runs.health import health_of_stream
from keyfold.runs.metrics import served
from keyfold.runs.reports_to_dagster import reported, written_by_ingest
from keyfold.runs.source_changes import changes_of
from keyfold.runs.table_maintenance import TableMaintenance, tables_of_ingest
from keyfold.runs.unfinished_changes import end_finished
from keyfold.schemas import require
from keyfold.stream import Stream
from keyfold.times import as_duration


def ingest(
    lakehouse: Lakehouse,
    stream: Stream,
    landing: Landing | Path | str | None = None,
    *,
    settle: timedelta | str = timedelta(0),
    reread_changed: bool = False,
    on_batch: Callable[[Progress], None] | None = None,
    max_bytes_per_batch: int = MAX_BYTES_PER_BATCH,
    runners: Runners | None = None,
) -> IngestSummary:
    """Ingest everything new in a landing folder or topic. If it is killed at any moment, run it again.

    Each file is identified by its path and read once, so only complete files are read (`listing` says when a file is
    complete). Of a topic, the journal records the next offset of each partition.

    Args:
        lakehouse: the lakehouse of the tables.
        stream: the stream.
        landing: the folder (a path, or text such as `s3a://BUCKET/FOLDER`), read with its subfolders, or the topic
            (`kafka://TOPIC`); by default the stream's landing folder.
        settle: time since the last change after which a file is complete, also as text (`"5s"`); 0 if nobody writes during the run. Ignored for
            streams with done markers.
        reread_changed: read files again that changed after they were read. Rows already in the tables are dropped by id.
        on_batch: called after each batch is committed.
        max_bytes_per_batch: maximum bytes of a batch's files, or of one larger file. A message counts as `MESSAGE_BYTES`.
        runners: choose where the work is done, by default as the environment says (`Runners.from_environment`).

    Raises:
        KeyfoldError: the folder is missing or cannot be read, Kafka does not answer, the topic was replaced or unread
            messages have expired, the tables, journal and stream do not fit each other, a disk is full, or another run ingests
            the stream.

    Example:
        >>> import keyfold
        >>> from spark_jobs.streams import STREAMS
        >>> keyfold.ingest(keyfold.Lakehouse("~/lakehouse"), STREAMS["ride_points"]).accepted  # doctest: +SKIP
        1200
    """
    require("ingest: the lakehouse", lakehouse, Lakehouse, "a Lakehouse, such as Lakehouse('lakehouse')")
    require("ingest: the stream", stream, Stream, "a Stream, and not its name")
    settle = as_duration("ingest: settle", settle)
    if reread_changed:
        _check_reread(stream)
    unreported: list[str] = []
    with (
        ingest_lock(lakehouse, stream, landing) as folder,
        _lineage(lakehouse, stream, folder, unreported.append),
    ):
        summary = ingest_under_lock(
            runners or Runners.from_environment(),
            lakehouse,
            stream,
            folder,
            settle=settle,
            reread_changed=reread_changed,
            on_batch=on_batch,
            max_bytes_per_batch=max_bytes_per_batch,
        )
    end_finished(lakehouse)
    return replace(summary, warnings=(*summary.warnings, *unreported)) if unreported else summary


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
    waits for it. If DAGSTER_HOME is set, Dagster shows what was written (`keyfold.runs.reports_to_dagster`).

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
        _lineage(lakehouse, stream, source, on_warning, EVERY),
    ):
        options = {"settle": settle, "on_batch": after_batch}
        look, away_since, report = changes_of(source), None, on_warning or (lambda text: None)
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
                    run = ingest_under_lock(runners, lakehouse, stream, source, **options)
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


def _lineage(
    lakehouse: Lakehouse,
    stream: Stream,
    source: Landing,
    on_warning: Callable[[str], None] | None,
    every: float | None = None,
) -> AbstractContextManager[None]:
    """Report an ingest to a catalog, as `lineage_reported` does."""
    return lineage_reported(
        f"ingest.{stream.name}",
        [Dataset(_topic_url(source) if isinstance(source, KafkaTopic) else source)],
        [Dataset(lakehouse.events(stream.name), stream.event_schema), Dataset(lakehouse.quarantine(stream.name))],
        on_warning,
        every=every,
    )


def _topic_url(topic: KafkaTopic) -> str:
    return f"kafka://{topic.settings.bootstrap.partition(',')[0]}/{topic.name}"


def _check_reread(stream: Stream) -> None:
    if not stream.event_id:
        raise Misconfigured(
            f"{stream.name} has no event id, so rows that are read again would count twice: changed files cannot be "
            "read again; land new rows as new files"
        )
    if stream.goes_by_arrival:
        raise Misconfigured(
            f"{stream.name} uses the arrival time of rows without an event time. Read again after {stream.duplicate_window}, "
            "they would have another time and count twice: changed files cannot be read again; land new rows as new files"
        )
