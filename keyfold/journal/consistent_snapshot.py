"""Find a batch at whose end a journal and its tables agree, also while a run is going on, so that counts add up."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic

from deltalake import DeltaTable

from keyfold.journal.agreement import has_taken_all
from keyfold.journal.journal import D, Journal, P
from keyfold.storage.place import Place

PATIENCE = 60.0
"""Seconds to wait for a run to finish a batch."""

_LOOK = 0.02


@dataclass(frozen=True)
class ConsistentSnapshot(Generic[D]):
    """The newest batch of a journal, and the tables with its rows.

    Attributes:
        record: its commit record.
        tables: the tables, opened at their versions at its end.
        is_whole: whether they have all of its rows, and none of a later batch.
    """

    record: D
    tables: Mapping[str, DeltaTable]
    is_whole: bool


def snapshot_now(journal: Journal[P, D], tables: Mapping[str, Place], identity: str) -> ConsistentSnapshot[D] | None:
    """Return the newest batch and its tables without waiting; None before the first batch.

    Args:
        journal: the journal.
        tables: the folders of its tables, by name.
        identity: its name in the tables' transactions, as for `check_tables`.

    Raises:
        TableNotFoundError: a table is gone.
    """
    record = journal.last_done()
    if record is None:
        return None
    opened = {name: DeltaTable(str(path)) for name, path in tables.items()}
    # Delta commits follow their commit record: without a newer record, the tables have nothing of a later batch.
    newest = journal.last_done()
    is_newest = newest is not None and newest.batch == record.batch
    return ConsistentSnapshot(record, opened, is_newest and has_taken_all(record, opened, identity))


def consistent_snapshot(
    journal: Journal[P, D], tables: Mapping[str, Place], identity: str, lock: Place, *, whole_runs: bool = False
) -> ConsistentSnapshot[D] | None:
    """Return the newest batch and its tables once they agree; None before the first batch.

    After a run that was cut off, and if a running one finishes no batch within `PATIENCE`, `is_whole` is false.

    Args:
        journal, tables, identity: as for `snapshot_now`.
        lock: the folder that is locked while a run goes on.
        whole_runs: whether only the end of a run counts, since its batches share files.

    Raises:
        TableNotFoundError: a table is gone.
    """
    until = time.monotonic() + PATIENCE
    while True:
        # The lock before the record: if the run ended in between, an older record would look like one that was cut off.
        is_running = lock.is_held()
        snapshot = snapshot_now(journal, tables, identity)
        if snapshot is None:
            return None
        is_whole = snapshot.is_whole and not (
            whole_runs and _is_within_run(journal, snapshot.record, is_running=is_running)
        )
        # Without a running process, waiting does not help.
        if is_whole or not is_running or time.monotonic() > until:
            return ConsistentSnapshot(snapshot.record, snapshot.tables, is_whole)
        time.sleep(_LOOK)


def _is_within_run(journal: Journal[P, D], record: D, *, is_running: bool) -> bool:
    """Whether batches of the same run are still to come. A plan of a later run has changed nothing yet."""
    pending = journal.pending()
    return bool(pending) and not (is_running and pending[0].run > record.batch)
