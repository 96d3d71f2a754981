"""Find a batch at whose end journal and tables agree, also while a run is going on, so that counts add up."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from deltalake import DeltaTable

from keyfold.errors import KeyfoldError
from keyfold.journal.agreement import has_taken_all
from keyfold.keyed.generation.batch_records import KeyedDone
from keyfold.keyed.generation.generations import Generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.files import is_held

PATIENCE = 60.0
"""Seconds to wait for a running job to finish a batch."""

_LOOK = 0.02


@dataclass(frozen=True)
class ConsistentSnapshot:
    """The newest batch that is committed in journal and tables.

    Attributes:
        record: its commit record.
        versions: versions of the job's tables at its end, by name.
    """

    record: KeyedDone
    versions: Mapping[str, int]


def consistent_snapshot(lakehouse: Lakehouse, job: KeyedJob, generation: Generation) -> ConsistentSnapshot | None:
    """Return the newest consistent snapshot; None before the first batch.

    Raises:
        KeyfoldError: the last run was interrupted, or a running one finished no batch within `PATIENCE`.
    """
    until = time.monotonic() + PATIENCE
    while True:
        # The lock before the record: if the run ended in between, an older record would look like one that was cut off.
        goes_on = is_held(lakehouse.job(job.name))
        last = generation.journal.last_done()
        if last is None:
            return None
        if _is_an_end(generation, last, goes_on=goes_on):
            tables = {table.name: DeltaTable(str(generation.table(table.name))) for table in job.tables}
            versions = {name: table.version() for name, table in tables.items()}
            # Delta commits follow their commit record: without a newer record, the versions are those of this batch.
            newest = generation.journal.last_done()
            has_all = has_taken_all(generation.journal, tables, generation.identity)
            if newest is not None and newest.batch == last.batch and has_all:
                return ConsistentSnapshot(last, versions)
        # Without a running process, waiting does not help.
        if not goes_on or time.monotonic() > until:
            raise KeyfoldError(f"job {job.name}: its last run was cut off; run it again before counting its events")
        time.sleep(_LOOK)


def _is_an_end(generation: Generation, last: KeyedDone, *, goes_on: bool) -> bool:
    """Whether the input of a batch is read completely."""
    pending = generation.journal.pending()
    # A plan of a later run has changed nothing yet. Slices of one run share files, which are read after the last slice.
    return not pending or (goes_on and pending[0].run > last.batch)
