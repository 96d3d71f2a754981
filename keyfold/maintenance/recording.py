"""Record checksums of the log entries that maintenance wrote, which `keyfold check` verifies.

If a run holds the lock, that run records them.
"""

import re
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

from deltalake import DeltaTable

from keyfold.errors import KeyfoldError
from keyfold.ingestion import ingest_journal
from keyfold.ingestion.ingest_settings import existing_ingest
from keyfold.journal.checksums import record_checksums
from keyfold.keyed.generation.generations import live_generation
from keyfold.lakehouse import Lakehouse, exclusive
from keyfold.maintenance.readers import readers
from keyfold.storage.place import Place


def record_ingest(lakehouse: Lakehouse, stream: str) -> None:
    """Record the checksums of a stream's ingest, unless a run is active.

    Raises:
        OSError: the disk is full or fails.
    """

    def record() -> None:
        birth, done = existing_ingest(lakehouse, stream), ingest_journal(lakehouse, stream).last_done()
        if birth is not None:
            record_checksums(birth.journal, birth.checksummed, done.batch if done else -1)

    _do_locked(lakehouse.ingest(stream), f"maintenance of {stream}", record)


def record_job(lakehouse: Lakehouse, job: str) -> None:
    """Record the checksums of a job's live generation, unless a run is active.

    Raises:
        OSError: the disk is full or fails.
    """

    def record() -> None:
        if (generation := live_generation(lakehouse, job)) is not None:
            generation.record_checksums()

    _do_locked(lakehouse.job(job), f"job {job}", record)


def _do_locked(folder: Place, what: str, do: Callable[[], None]) -> None:
    # Checked first, since taking a lock creates the folder.
    if folder.is_dir():
        with suppress(KeyfoldError), exclusive(folder, what):
            do()


KEPT_VERSIONS = 1_000
"""Minimum number of newest versions to keep, besides those that jobs still have to read."""

_MARGIN = timedelta(minutes=10)
"""Younger entries are kept, since a reader may have listed them and be about to read them."""

_ENTRY = re.compile(r"\.?(\d{20})\.(?:json|crc|checkpoint\.)")


def trim_log(lakehouse: Lakehouse, name: str, table: Place, kept: int = KEPT_VERSIONS) -> int:
    """Delete old entries of a table's log, and return their number. Older versions of the table cannot be read afterwards.

    Args:
        lakehouse: the lakehouse of the jobs that read the table.
        name: the table's name in plans: `events.<stream>`, or that of a job's table.
        table: the table's folder.
        kept: minimum number of newest versions to keep.

    Raises:
        KeyfoldError: a job's journal cannot be read, so that it is not known what it still has to read.
    """
    bound = DeltaTable(str(table)).version() - kept
    # Keep the entry that a job read last, by which it recognizes the table.
    bound = min([bound, *(reader.read for reader in readers(lakehouse, name, table))])
    entries = [(int(found[1]), path) for path in (table / "_delta_log").iterdir() if (found := _ENTRY.match(path.name))]
    # Reading a version needs an earlier checkpoint, so the kept entries must begin with one.
    checkpoints = [version for version, path in entries if ".checkpoint." in path.name and path.name[0] != "."]
    first = max((version for version in checkpoints if version <= bound), default=0)
    oldest = time.time_ns() - _MARGIN / timedelta(microseconds=1) * 1000
    # Oldest first, so that an interruption leaves no gap.
    gone = [path for version, path in sorted(entries) if version < first and path.stat().st_mtime_ns < oldest]
    for path in gone:
        path.unlink(missing_ok=True)
    return len(gone)
