"""Diagnose corrupt event tables after a failed run.

The tables are checked only after a failure: the check reads the log and the footers of the newest files.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import polars as pl
import pyarrow as pa
from deltalake.exceptions import DeltaError

from keyfold.errors import Damaged, KeyfoldError, first_line
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.plans.input_tables import input_id, input_tables, rebuild_command
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.log_changes import added_since
from keyfold.lakehouse.reading import data_file_paths, parquet_file
from keyfold.storage.place import Place
from keyfold.storage.store_failures import failure_of_store

_MOST_FILES = 1_000
"""Number of files whose footers are checked, the newest ones."""


class BatchFailedError(KeyfoldError):
    """A batch failed, and its error does not say why."""


@contextmanager
def damage_diagnosed(lakehouse: Lakehouse, job: KeyedJob) -> Iterator[None]:
    """Raise an error with the cause and the remedy when a run fails because an input table is damaged.

    Raises:
        KeyfoldError: in place of an error of Delta, Parquet or a worker.
    """
    try:
        yield
    except (DeltaError, pl.exceptions.PolarsError, pa.ArrowException, OSError, BatchFailedError) as error:
        tables = input_tables(lakehouse, job)
        # A store that does not answer is no damage: report it first.
        for table in tables.values():
            if (failed := failure_of_store(error, table)) is not None:
                raise failed from error
        # A full or failing disk is not a damaged table.
        if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
            raise
        for name, table in tables.items():
            _check_table(lakehouse, job, name, table, error)
        if isinstance(error, BatchFailedError):
            raise
        raise KeyfoldError(
            f"job {job.name} failed: {first_line(error)}; run it again, and it continues where it stopped (if it fails there "
            "again, start a new generation with --full-refresh)"
        ) from error


def _check_table(lakehouse: Lakehouse, job: KeyedJob, name: str, table: Place, cause: BaseException) -> None:
    if (damage := _damage_of(table)) is not None:
        rebuild = rebuild_command(lakehouse, job, name)
        raise Damaged(
            f"job {job.name} reads {name} in {table}, which cannot be read: {damage}; restore it, or run "
            f"`{rebuild}`, and then this job with --full-refresh"
        ) from cause
    if gone := _unread_files_gone(lakehouse, job, name, table):
        raise Damaged(
            f"job {job.name} has yet to read files of {name} that are gone ({gone[0]}"
            f"{f' and {len(gone) - 1:,} more' if gone[1:] else ''}): another tool has compacted the table and deleted "
            "the files that it replaced (VACUUM) before the job ran. The newer files hold the same rows, together with "
            f"rows that the job has read; read all of them: `{lakehouse.command('run', job.name, '--full-refresh')}`"
        ) from cause


def _unread_files_gone(lakehouse: Lakehouse, job: KeyedJob, name: str, table: Place) -> list[str]:
    """List files that the live generation has not read yet and that do not exist."""
    generation = live_generation(lakehouse, job.name)
    producer = next(input_.producer for input_ in job.inputs.values() if input_.table == name)
    # After a full refresh of the producer the table has other content, and the journal's files are not its files.
    if generation is None or generation.record.input_ids.get(name) != input_id(lakehouse, name, producer):
        return []
    last, plans = generation.journal.last_done(), generation.journal.pending()
    unread = {file.path for plan in plans for input_ in plan.inputs if input_.table == name for file in input_.files}
    if last is not None and name in last.positions:
        unread |= set(added_since(table, last.positions[name]))
    return sorted(path for path in unread if not (table / path).exists())


def _damage_of(table: Place) -> str | None:
    """Say what is wrong with a table; None if its log and the footers of its newest files can be read."""
    try:
        files = data_file_paths(table)
    except (DeltaError, OSError) as error:
        if (failed := failure_of_store(error, table)) is not None:
            raise failed from error
        return f"its log is damaged ({first_line(error)})"
    for file in files[-_MOST_FILES:]:
        try:
            with parquet_file(file):
                pass
        except (OSError, pa.ArrowException) as error:
            if (failed := failure_of_store(error, file)) is not None:
                raise failed from error
            return f"{file.name}: {first_line(error)}"
    return None
