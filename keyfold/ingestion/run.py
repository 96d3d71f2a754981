"""Run ingest once: read everything new in a landing folder or topic into the stream's tables."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import timedelta

from keyfold.errors import KeyfoldError, Misconfigured, NotFound
from keyfold.ingestion.ingest_records import IngestSummary
from keyfold.ingestion.ingest_run import ingest_under_lock
from keyfold.ingestion.ingest_settings import REBUILD, RECORD
from keyfold.ingestion.kafka.topic import KafkaTopic
from keyfold.ingestion.listing import Landing
from keyfold.ingestion.planning import MAX_BYTES_PER_BATCH
from keyfold.journal.records import Progress
from keyfold.lakehouse import Lakehouse, exclusive
from keyfold.open_lineage import Dataset, lineage_reported
from keyfold.runners import Runners
from keyfold.schemas import require
from keyfold.storage.place import local_path, to_place
from keyfold.storage.reachable import check_conditions
from keyfold.stream import Stream
from keyfold.times import as_duration


def ingest(
    lakehouse: Lakehouse,
    stream: Stream,
    landing: Landing | str | None = None,
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
        landing: the folder (a path, or text such as `s3a://BUCKET/FOLDER`), read with its subfolders, or the topic; by default
            the stream's landing folder.
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
        ingest_lineage(lakehouse, stream, folder, unreported.append),
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
    return replace(summary, warnings=(*summary.warnings, *unreported)) if unreported else summary


def ingest_lineage(
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


@contextmanager
def ingest_lock(lakehouse: Lakehouse, stream: Stream, landing: Landing | str | None) -> Iterator[Landing]:
    """Hold the lock of a stream's ingest, and yield the landing folder or topic.

    Raises:
        KeyfoldError: the folder is missing, a rebuild is unfinished, another run ingests the stream, or the lakehouse is in a
            store without conditional writes.
    """
    landing, folder = require_landing(lakehouse, stream, landing), lakehouse.ingest(stream.name)
    check_conditions(folder)
    # One run per stream, not per source: no other run may add events while this one looks up duplicates.
    with exclusive(folder, f"ingest of {stream.name}"):
        if (folder / REBUILD).exists():
            raise KeyfoldError(
                f"ingest of {stream.name}: a rebuild of its tables is unfinished; finish it with "
                f"`{lakehouse.command('ingest', stream.name, '--rebuild')}`"
            )
        yield landing


def require_landing(lakehouse: Lakehouse, stream: Stream, landing: Landing | str | None) -> Landing:
    """Return the landing folder, after checking that it exists, or the topic.

    Raises:
        KeyfoldError: the folder is missing.
    """
    if isinstance(landing, KafkaTopic):
        return landing
    landing = to_place(landing or lakehouse.landing(stream.name)).expanduser().resolve()
    # An empty folder of a bucket does not exist. After a first run that is fine: files that were read may be deleted.
    is_emptied = local_path(landing) is None and (lakehouse.ingest(stream.name) / RECORD).exists()
    if not is_emptied and not landing.is_dir():
        raise NotFound(f"the landing folder {landing} does not exist; create it and put files of {stream.name} into it")
    return landing
