"""What can be told of a stream's ingest from outside, without its lock: counts, files that were read, what is unfinished."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from keyfold.ingestion.ingest_records import IngestCounts, IngestDone, IngestPlan
from keyfold.ingestion.ingest_settings import Birth, existing_ingest, rebuild_remedy
from keyfold.ingestion.known import IngestJournal, KnownFile, KnownFiles
from keyfold.ingestion.sources.kafka.offsets import ReadTopic
from keyfold.ingestion.sources.landing_names import source_name
from keyfold.journal import Journal
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.locks import is_held
from keyfold.storage.place import Place
from keyfold.stream import Stream

_LOOK = 0.02


def ingest_totals(lakehouse: Lakehouse, stream: Stream | str) -> IngestCounts:
    """The counts over all runs and all sources of a stream."""
    done = ingest_journal(lakehouse, stream if isinstance(stream, str) else stream.name).last_done()
    return done.totals if done else IngestCounts()


def ingest_journal(lakehouse: Lakehouse, stream: str) -> IngestJournal:
    """The journal of a stream's ingest."""
    return Journal(lakehouse.ingest(stream) / "journal", IngestPlan, IngestDone, rebuild_remedy(lakehouse, stream))


def known_files(lakehouse: Lakehouse, stream: str, landing: Place) -> dict[str, KnownFile]:
    """The files of a landing folder that were read, by their paths below it."""
    return _known(lakehouse, stream).of(source_name(lakehouse, landing.expanduser().resolve()))


def all_known_files(lakehouse: Lakehouse, stream: str) -> dict[str, tuple[str, ...]]:
    """The paths of all files that were read, by their landing folder (as in `source_name`).

    Raises:
        KeyfoldError: part of what was known is gone or damaged.
    """
    return _known(lakehouse, stream).all()


@dataclass(frozen=True)
class SettledTables:
    """What ingest's journal says, and the tables that go with it.

    Attributes:
        totals: the counts over all runs.
        versions: of the event table and the quarantine, by `events` and `quarantine`, with just those rows.
    """

    totals: IngestCounts
    versions: Mapping[str, int]


def settled_tables(lakehouse: Lakehouse, stream: str) -> SettledTables | None:
    """The newest batch that is in journal and tables alike, while ingest may go on; None before the first.

    A batch that ingest has broken off at is left to be seen: the tables as they are then.

    Raises:
        TableNotFoundError: a table is gone.
    """
    journal, birth, until = ingest_journal(lakehouse, stream), existing_ingest(lakehouse, stream), time.monotonic() + 60
    while True:
        goes_on = is_held(lakehouse.ingest(stream))
        done = journal.last_done()
        if birth is None or done is None:
            return None
        opened = {name: DeltaTable(str(path)) for name, path in birth.tables.items()}
        newest = journal.last_done()
        # Commits follow their commit record: where there is no later one, nothing was added since.
        is_whole = newest is not None and newest.batch == done.batch and not uncommitted(birth, done, opened)
        if is_whole or not goes_on or time.monotonic() > until:
            return SettledTables(done.totals, {name: table.version() for name, table in opened.items()})
        time.sleep(_LOOK)


def read_topics(lakehouse: Lakehouse, stream: str) -> dict[str, ReadTopic]:
    """How far topics were read, by their sources (`kafka://TOPIC`)."""
    done = ingest_journal(lakehouse, stream).last_done()
    return done.topics if done else {}


def is_unfinished(lakehouse: Lakehouse, stream: str) -> bool:
    """Whether a run broke off and left something that the next one will finish."""
    journal, birth = ingest_journal(lakehouse, stream), existing_ingest(lakehouse, stream)
    done = journal.last_done()
    if birth is None or done is None or journal.pending():
        return bool(journal.pending())
    try:
        opened = {name: DeltaTable(str(path)) for name, path in birth.tables.items() if done.tables[name]}
    except TableNotFoundError:
        return False  # the next run says what is wrong, and cannot mend it
    return bool(uncommitted(birth, done, opened))


def uncommitted(birth: Birth, done: IngestDone, opened: Mapping[str, DeltaTable]) -> list[str]:
    """The tables that have yet to take what the newest commit record names."""
    return [
        name
        for name, files in done.tables.items()
        if files and opened[name].transaction_version(f"{birth.identity}/{name}") != done.batch
    ]


def _known(lakehouse: Lakehouse, stream: str) -> KnownFiles:
    journal, remedy = ingest_journal(lakehouse, stream), rebuild_remedy(lakehouse, stream)
    return KnownFiles(lakehouse.ingest(stream), journal, f"ingest of {stream}", remedy)
