"""Maintain the tables of a continuous run, whose batches write many small files.

The process that writes the tables maintains them. Append tables are compacted in a thread beside the batches, since that takes
seconds. Upsert tables are compacted between two batches: a merge and a compaction at the same time would conflict.
"""

import threading
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta

from deltalake.exceptions import DeltaError

from keyfold.errors import KeyfoldError
from keyfold.ingestion import ingest_journal
from keyfold.keyed.generation.generations import Generation, live_generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.lakehouse import Lakehouse, is_table
from keyfold.maintenance import MaintainedTable, maintain
from keyfold.maintenance.log_trimming import KEPT_VERSIONS, trim_log
from keyfold.maintenance.one_table import remember_removals
from keyfold.stream import Stream

EVERY = 250
"""Number of batches between two maintenances."""

RETENTION = timedelta(hours=1)
"""How long replaced files are kept; longer if a job has yet to read them. A week, Delta's default, would be a million files."""


class TableMaintenance:
    """Compacts tables, and deletes replaced files and old log entries, after every `every` batches.

    Use it as a context manager around the run that holds the lock. At its end it waits for the thread.

    Args:
        tables: returns the tables. The caller writes them, and holds their lock.
        every: number of batches between two maintenances.
        on_warning: called when maintenance of a table failed; it is tried again later.
    """

    def __init__(
        self,
        lakehouse: Lakehouse,
        tables: Callable[[], Sequence[MaintainedTable]],
        every: int = EVERY,
        on_warning: Callable[[str], None] | None = None,
    ) -> None:
        self._lakehouse, self._tables, self._every = lakehouse, tables, every
        self._warn = on_warning or (lambda _: None)
        self._batches = 0
        self._beside: threading.Thread | None = None

    def __enter__(self) -> "TableMaintenance":
        return self

    def __exit__(self, *_: object) -> None:
        if self._beside is not None:
            self._beside.join()

    def after_batch(self) -> None:
        """Count a committed batch, and maintain the tables if it is time."""
        self._batches += 1
        if self._batches % self._every:
            return
        # A failure is no reason to end the run: the next maintenance tries again.
        try:
            tables = self._tables()
        except (KeyfoldError, OSError) as error:
            self._warn(f"small files were not compacted: {error}")
            return
        upserts = [table for table in tables if table.is_upsert]
        self._each(upserts, self._remember)
        self._each(upserts, self._maintain)
        if self._beside is None or not self._beside.is_alive():
            appended = [table for table in tables if not table.is_upsert]
            # Not in the thread: it may change properties of the table, and a concurrent append would then fail.
            self._each(appended, self._remember)
            self._beside = threading.Thread(
                target=self._each, args=(appended, self._maintain), name="table-maintenance"
            )
            self._beside.start()

    def _each(self, tables: Sequence[MaintainedTable], do: Callable[[MaintainedTable], None]) -> None:
        for table in tables:
            try:
                if is_table(table.path):
                    do(table)
            except (KeyfoldError, DeltaError, OSError) as error:
                self._warn(f"small files of {table.name} were not compacted: {error}")

    def _remember(self, table: MaintainedTable) -> None:
        remember_removals(table.path, RETENTION)

    def _maintain(self, table: MaintainedTable) -> None:
        maintain(self._lakehouse, table, RETENTION)
        trim_log(self._lakehouse, table.name, table.path, KEPT_VERSIONS)


def tables_of_job(lakehouse: Lakehouse, job: KeyedJob) -> list[MaintainedTable]:
    """Return the tables of a job's live generation."""
    generation = live_generation(lakehouse, job.name)
    upserts = [table.name for table in job.tables if table.mode == "upsert"]
    return [] if generation is None else tables_of_generation(generation, upserts)


def tables_of_generation(generation: Generation, upserts: Collection[str] = ()) -> list[MaintainedTable]:
    """Return the tables of a generation; `upserts` names its upsert tables."""
    batches = generation.journal.recent()
    return [
        MaintainedTable(
            name, generation.table(name), [record.tables.get(name, ()) for record in batches], is_upsert=name in upserts
        )
        for name in sorted(generation.record.table_ids)
    ]


def tables_of_ingest(lakehouse: Lakehouse, stream: Stream) -> list[MaintainedTable]:
    """Return a stream's event table and quarantine."""
    batches = ingest_journal(lakehouse, stream.name).recent()
    written = {name: [done.tables.get(name, ()) for done in batches] for name in ("events", "quarantine")}
    events, quarantine = lakehouse.events(stream.name), lakehouse.quarantine(stream.name)
    return [
        MaintainedTable(f"events.{stream.name}", events, written["events"], time=stream.event_time, stream=stream.name),
        MaintainedTable(f"quarantine.{stream.name}", quarantine, written["quarantine"], stream=stream.name),
    ]
