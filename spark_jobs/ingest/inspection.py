"""What can be told of a stream's ingest from outside, without its lock: counts, files that were read, what is unfinished."""

from collections.abc import Mapping
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from spark_jobs.ingest.birth import Birth, existing_ingest, rebuild_remedy
from spark_jobs.ingest.known import IngestJournal, KnownFile, KnownFiles
from spark_jobs.ingest.records import IngestCounts, IngestDone, IngestPlan
from spark_jobs.ingest.sources.kafka.offsets import ReadTopic
from spark_jobs.journal import Journal
from spark_jobs.lakehouse import Lakehouse
from spark_jobs.streams import Stream


def ingest_totals(lakehouse: Lakehouse, stream: Stream | str) -> IngestCounts:
    """The counts over all runs and all sources of a stream."""
    done = ingest_journal(lakehouse, stream if isinstance(stream, str) else stream.name).last_done()
    return done.totals if done else IngestCounts()


def ingest_journal(lakehouse: Lakehouse, stream: str) -> IngestJournal:
    """The journal of a stream's ingest."""
    return Journal(lakehouse.ingest(stream) / "journal", IngestPlan, IngestDone, rebuild_remedy(lakehouse, stream))


def known_files(lakehouse: Lakehouse, stream: str, landing: Path) -> dict[str, KnownFile]:
    """The files of a landing folder that were read, by their paths below it."""
    return _known(lakehouse, stream).of(source_name(lakehouse, landing.expanduser().resolve()))


def all_known_files(lakehouse: Lakehouse, stream: str) -> dict[str, tuple[str, ...]]:
    """The paths of all files that were read, by their landing folder (as in `source_name`).

    Raises:
        KeyfoldError: part of what was known is gone or damaged.
    """
    return _known(lakehouse, stream).all()


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
    """The tables that have yet to take what the newest done record names."""
    return [
        name
        for name, files in done.tables.items()
        if files and opened[name].transaction_version(f"{birth.identity}/{name}") != done.batch
    ]


def source_name(lakehouse: Lakehouse, landing: Path) -> str:
    """What names a landing folder: its path below the home, which may move; the whole one elsewhere."""
    if landing.is_relative_to(lakehouse.home):
        return landing.relative_to(lakehouse.home).as_posix()
    return landing.as_posix()


def _known(lakehouse: Lakehouse, stream: str) -> KnownFiles:
    journal, remedy = ingest_journal(lakehouse, stream), rebuild_remedy(lakehouse, stream)
    return KnownFiles(lakehouse.ingest(stream), journal, f"ingest of {stream}", remedy)
