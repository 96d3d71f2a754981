"""Inspect a stream's ingest without its lock: counts, files that were read, unfinished work."""

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from keyfold.ingestion.ingest_records import IngestCounts, IngestDone, IngestPlan
from keyfold.ingestion.ingest_settings import existing_ingest, rebuild_remedy
from keyfold.ingestion.kafka.offsets import ReadTopic
from keyfold.ingestion.known import IngestJournal, KnownFile, KnownFiles, versions
from keyfold.ingestion.listing import source_name
from keyfold.journal import Journal
from keyfold.journal.agreement import has_taken_all
from keyfold.journal.consistent_snapshot import ConsistentSnapshot, consistent_snapshot
from keyfold.lakehouse import Lakehouse
from keyfold.storage.place import Place
from keyfold.stream import Stream


def ingest_totals(lakehouse: Lakehouse, stream: Stream | str) -> IngestCounts:
    """Return the counts of a stream over all runs and all sources."""
    record = ingest_journal(lakehouse, stream if isinstance(stream, str) else stream.name).last_done()
    return record.totals if record else IngestCounts()


def ingest_journal(lakehouse: Lakehouse, stream: str) -> IngestJournal:
    """Return the journal of a stream's ingest."""
    return Journal(lakehouse.ingest(stream) / "journal", IngestPlan, IngestDone, rebuild_remedy(lakehouse, stream))


def known_files(lakehouse: Lakehouse, stream: str, landing: Place) -> dict[str, KnownFile]:
    """Return the files of a landing folder that were read, by their relative paths."""
    return versions(_known(lakehouse, stream).of(source_name(lakehouse, landing.expanduser().resolve())))


def all_known_files(lakehouse: Lakehouse, stream: str) -> dict[str, tuple[str, ...]]:
    """Return the paths of all files that were read, by landing folder (as in `source_name`).

    Raises:
        KeyfoldError: part of these records is gone or damaged.
    """
    return _known(lakehouse, stream).all()


def consistent_tables(lakehouse: Lakehouse, stream: str) -> ConsistentSnapshot[IngestDone] | None:
    """Return ingest's newest batch, and the tables `events` and `quarantine` with exactly its rows; None before the first.

    After a run that was cut off within a batch the tables are those of now, and `is_whole` is false.

    Raises:
        TableNotFoundError: a table is gone.
    """
    settings = existing_ingest(lakehouse, stream)
    if settings is None:
        return None
    return consistent_snapshot(
        ingest_journal(lakehouse, stream), settings.tables, settings.identity, lakehouse.ingest(stream)
    )


def read_topics(lakehouse: Lakehouse, stream: str) -> dict[str, ReadTopic]:
    """Return how far topics have been read, by source (`kafka://TOPIC`)."""
    record = ingest_journal(lakehouse, stream).last_done()
    return record.topics if record else {}


def is_unfinished(lakehouse: Lakehouse, stream: str) -> bool:
    """Whether an interrupted run has left work that the next one will finish."""
    journal, settings = ingest_journal(lakehouse, stream), existing_ingest(lakehouse, stream)
    record = journal.last_done()
    if settings is None or record is None or journal.pending():
        return bool(journal.pending())
    try:
        opened = {name: DeltaTable(str(path)) for name, path in settings.tables.items() if record.tables[name]}
    except TableNotFoundError:
        return False  # the next run reports the missing table, and cannot repair it
    return not has_taken_all(record, opened, settings.identity)


def _known(lakehouse: Lakehouse, stream: str) -> KnownFiles:
    journal, remedy = ingest_journal(lakehouse, stream), rebuild_remedy(lakehouse, stream)
    return KnownFiles(lakehouse.ingest(stream), journal, f"ingest of {stream}", remedy)
