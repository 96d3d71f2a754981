"""Care of a job's tables while it runs continuously: each batch writes files, and nobody else may join them meanwhile."""

from deltalake.exceptions import DeltaError

from spark_jobs.cli.terminal import warn
from spark_jobs.errors import KeyfoldError
from spark_jobs.keyed.contract import KeyedJob
from spark_jobs.keyed.generations import live_generation
from spark_jobs.lakehouse import Lakehouse, is_table
from spark_jobs.maintenance import maintain

EVERY = 1_000
"""Batches from one time to the next: joining takes as long as a batch or two, which wait for it."""


class TableCare:
    """Joins small files of a job's tables and deletes those that nobody needs any more, every so many batches.

    Args:
        lakehouse: where the tables are.
        job: whose tables they are; its lock is held by whoever calls.
        every: batches from one time to the next.
    """

    def __init__(self, lakehouse: Lakehouse, job: KeyedJob, every: int = EVERY) -> None:
        self._lakehouse, self._job, self._every = lakehouse, job, every
        self._batches = 0

    def after_batch(self) -> None:
        """Count a batch that is committed; see to the tables where it is time."""
        self._batches += 1
        if self._batches % self._every:
            return
        try:
            self._maintain()
        # What is not joined now is joined the next time: no reason to end a run that is well.
        except (KeyfoldError, DeltaError, OSError) as error:
            warn([f"small files of the tables of {self._job.name} were not joined: {error}"])

    def _maintain(self) -> None:
        generation = live_generation(self._lakehouse, self._job.name)
        if generation is None:
            return
        batches = generation.journal.recent()
        for table in self._job.tables:
            path = generation.table(table.name)
            if is_table(path):
                written = [done.tables.get(table.name, ()) for done in batches]
                maintain(self._lakehouse, table.name, path, written=written)
