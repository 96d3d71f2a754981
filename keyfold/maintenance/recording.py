"""Record checksums of the log entries that maintenance wrote, which `keyfold check` verifies.

If a run holds the lock, that run records them.
"""

from collections.abc import Callable
from contextlib import suppress

from keyfold.errors import KeyfoldError
from keyfold.ingestion import ingest_journal
from keyfold.ingestion.ingest_settings import existing_ingest
from keyfold.journal.checksums import record_checksums
from keyfold.keyed.generation.generations import live_generation
from keyfold.lakehouse import Lakehouse, exclusive
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
