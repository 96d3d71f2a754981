"""Care of tables that are written continuously: each batch makes files, and whoever opens a table looks at all of them.

Whoever writes the tables sees to them. Where rows are only appended, that goes on beside the batches, in a thread: joining
takes seconds that no event should wait for. A table of upserts is seen to between two batches, since of a merge and a
join at once one would fail.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from deltalake.exceptions import DeltaError

from keyfold.errors import KeyfoldError
from keyfold.ingestion import ingest_journal
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.lakehouse import Lakehouse, is_table
from keyfold.lakehouse.data_files import WrittenFile
from keyfold.maintenance import maintain
from keyfold.maintenance.log import KEPT_VERSIONS, trim_log
from keyfold.maintenance.removals import remember_removals
from keyfold.storage.place import Place
from keyfold.stream import Stream

EVERY = 250
"""Batches from one time to the next."""

RETENTION = timedelta(hours=1)
"""Replaced files are kept for so long, and longer while a job has yet to read them. Delta's own week would be a million."""


@dataclass(frozen=True)
class Tended:
    """A table that is seen to.

    Attributes:
        name: as plans have it, `events.<stream>`, or the job's own.
        path: its folder.
        written: its files by the commit records that are kept, oldest first.
        time: of an event table, its column of times.
        is_upsert: whether batches change rows of it.
    """

    name: str
    path: Place
    written: Sequence[Sequence[WrittenFile]]
    time: str | None = None
    is_upsert: bool = False


class TableCare:
    """Joins small files of tables, and deletes replaced ones and old log entries, every so many batches.

    A context manager, around the one that holds the lock: at the end what goes on beside is waited for, and the checksums of
    what was written are recorded.

    Args:
        lakehouse: where the tables are.
        tables: gives them; whoever calls is the one who writes them, and holds the lock that goes with it.
        record: records checksums under that lock, once it is free.
        every: batches from one time to the next.
        retention: for how long replaced files are kept.
        versions: how many of the newest versions' log entries are kept.
        on_warning: called when a table could not be maintained, which is tried again later.
    """

    def __init__(
        self,
        lakehouse: Lakehouse,
        tables: Callable[[], Sequence[Tended]],
        record: Callable[[], None],
        every: int = EVERY,
        retention: timedelta = RETENTION,
        versions: int = KEPT_VERSIONS,
        on_warning: Callable[[str], None] | None = None,
    ) -> None:
        self._lakehouse, self._tables, self._record, self._every = lakehouse, tables, record, every
        self._retention, self._versions = retention, versions
        self._warn = on_warning or (lambda _: None)
        self._batches = 0
        self._beside: threading.Thread | None = None

    def __enter__(self) -> "TableCare":
        return self

    def __exit__(self, *_: object) -> None:
        if self._beside is not None:
            self._beside.join()
        if self._batches:
            self._record()

    def after_batch(self) -> None:
        """Count a batch that is committed; see to the tables where it is time."""
        self._batches += 1
        if self._batches % self._every:
            return
        # What is not joined now is joined the next time: no reason to end a run that is well.
        try:
            tables = self._tables()
        except (KeyfoldError, OSError) as error:
            self._warn(f"small files were not joined: {error}")
            return
        upserts = [table for table in tables if table.is_upsert]
        self._each(upserts, self._remember)
        self._each(upserts, self._tend)
        if self._beside is None or not self._beside.is_alive():
            appended = [table for table in tables if not table.is_upsert]
            # Before the next batch: an append fails where a table's properties have changed.
            self._each(appended, self._remember)
            self._beside = threading.Thread(target=self._each, args=(appended, self._tend), name="table-care")
            self._beside.start()

    def _each(self, tables: Sequence[Tended], do: Callable[[Tended], None]) -> None:
        for table in tables:
            try:
                if is_table(table.path):
                    do(table)
            except (KeyfoldError, DeltaError, OSError) as error:
                self._warn(f"small files of {table.name} were not joined: {error}")

    def _remember(self, table: Tended) -> None:
        remember_removals(table.path, self._retention)

    def _tend(self, table: Tended) -> None:
        maintain(self._lakehouse, table.name, table.path, self._retention, time=table.time, written=table.written)
        trim_log(self._lakehouse, table.name, table.path, self._versions)


def tables_of_job(lakehouse: Lakehouse, job: KeyedJob) -> list[Tended]:
    """The tables of a job's live generation."""
    generation = live_generation(lakehouse, job.name)
    if generation is None:
        return []
    batches = generation.journal.recent()
    return [
        Tended(
            table.name,
            generation.table(table.name),
            [done.tables.get(table.name, ()) for done in batches],
            is_upsert=table.mode == "upsert",
        )
        for table in job.tables
    ]


def tables_of_ingest(lakehouse: Lakehouse, stream: Stream) -> list[Tended]:
    """A stream's event table and its quarantine."""
    batches = ingest_journal(lakehouse, stream.name).recent()
    written = {name: [done.tables.get(name, ()) for done in batches] for name in ("events", "quarantine")}
    return [
        Tended(f"events.{stream.name}", lakehouse.events(stream.name), written["events"], stream.event_time),
        Tended(f"quarantine.{stream.name}", lakehouse.quarantine(stream.name), written["quarantine"]),
    ]
