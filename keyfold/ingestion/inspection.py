"""Inspect a stream's ingest without its lock: counts, files that were read, unfinished work."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from keyfold.ingestion.ingest_records import IngestCounts, IngestDone, IngestPlan
from keyfold.ingestion.ingest_settings import IngestSettings, existing_ingest, rebuild_remedy
from keyfold.ingestion.kafka.offsets import ReadTopic
from keyfold.ingestion.known import IngestJournal, KnownFile, KnownFiles, versions
from keyfold.ingestion.listing import source_name
from keyfold.journal import Journal
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.files import is_held
from keyfold.storage.place import Place
from keyfold.stream import Stream

_LOOK = 0.02


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


@dataclass(frozen=True)
class SettledTables:
    """A state in which ingest's journal and tables agree.

    Attributes:
        record: the commit record of the batch.
        tables: the tables `events` and `quarantine` with exactly its rows.
        is_whole: whether they are: not after a run that was interrupted before it committed to both.
    """

    record: IngestDone
    tables: Mapping[str, DeltaTable]
    is_whole: bool


def settled_tables(lakehouse: Lakehouse, stream: str) -> SettledTables | None:
    """Return the newest batch that is in both journal and tables, while ingest may be running; None before the first.

    If ingest was interrupted within a batch, or for longer than a minute, the tables' current versions are returned.

    Raises:
        TableNotFoundError: a table is gone.
    """
    journal, settings, until = (
        ingest_journal(lakehouse, stream),
        existing_ingest(lakehouse, stream),
        time.monotonic() + 60,
    )
    while True:
        # Read before the journal: if ingest ends in between, one more round sees its last commits.
        goes_on = is_held(lakehouse.ingest(stream))
        record = journal.last_done()
        if settings is None or record is None:
            return None
        opened = {name: DeltaTable(str(path)) for name, path in settings.tables.items()}
        newest = journal.last_done()
        # Commits follow their commit record: without a later record, nothing was added since.
        is_whole = newest is not None and newest.batch == record.batch and not uncommitted(settings, record, opened)
        if is_whole or not goes_on or time.monotonic() > until:
            return SettledTables(record, opened, is_whole)
        time.sleep(_LOOK)


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
    return bool(uncommitted(settings, record, opened))


def uncommitted(settings: IngestSettings, record: IngestDone, opened: Mapping[str, DeltaTable]) -> list[str]:
    """Return the tables that lack the commit of the newest commit record."""
    return [
        name
        for name, files in record.tables.items()
        if files and opened[name].transaction_version(f"{settings.identity}/{name}") != record.batch
    ]


def _known(lakehouse: Lakehouse, stream: str) -> KnownFiles:
    journal, remedy = ingest_journal(lakehouse, stream), rebuild_remedy(lakehouse, stream)
    return KnownFiles(lakehouse.ingest(stream), journal, f"ingest of {stream}", remedy)
