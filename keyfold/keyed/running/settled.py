"""A batch at whose end journal, checkpoint and tables are of one time, also while a run goes on: what is counted there adds up."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from deltalake import DeltaTable

from keyfold.errors import KeyfoldError
from keyfold.keyed.generation.batch_records import KeyedDone
from keyfold.keyed.generation.checkpoint import finished_batch
from keyfold.keyed.generation.generations import Generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.locks import is_held

PATIENCE = 60.0
"""Seconds until a run that goes on must have come to the end of a batch."""

_LOOK = 0.02


@dataclass(frozen=True)
class Settled:
    """The newest batch that is done in all places.

    Attributes:
        done: its record.
        versions: of the job's tables at its end, by name.
    """

    done: KeyedDone
    versions: Mapping[str, int]


def settled(lakehouse: Lakehouse, job: KeyedJob, generation: Generation) -> Settled | None:
    """Find it; None before the first batch.

    Raises:
        KeyfoldError: the last run was cut off, or one that goes on comes to no end.
    """
    until = time.monotonic() + PATIENCE
    while True:
        goes_on = is_held(lakehouse.job(job.name))
        done = generation.journal.last_done()
        if done is None:
            return None
        if _is_an_end(generation, done, goes_on=goes_on):
            versions = {table.name: DeltaTable(str(generation.table(table.name))).version() for table in job.tables}
            # Commits follow their commit record: where there is no later one, nothing was added since.
            newest = generation.journal.last_done()
            if newest is not None and newest.batch == done.batch:
                return Settled(done, versions)
        # Only a process that is there gets on.
        if not goes_on or time.monotonic() > until:
            raise KeyfoldError(f"job {job.name}: its last run was cut off; run it again before counting its events")
        time.sleep(_LOOK)


def _is_an_end(generation: Generation, done: KeyedDone, *, goes_on: bool) -> bool:
    """Whether all that a batch made is committed, and what it read is read to the end."""
    if finished_batch(generation.checkpoint) != done.batch:
        return False
    pending = generation.journal.pending()
    # A later run's plan has changed nothing yet. Slices of one run share files, which are read when the last is.
    return not pending or (goes_on and pending[0].run > done.batch)
