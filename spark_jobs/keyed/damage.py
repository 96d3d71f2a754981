"""What a run came upon that cannot be read: found, named, and told with what to do.

Nothing is looked for where all is well: only a run that has failed asks whether its event table is whole.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import polars as pl
import pyarrow as pa
from deltalake.exceptions import DeltaError

from spark_jobs.errors import KeyfoldError, first_line
from spark_jobs.keyed.contract import KeyedJob
from spark_jobs.lakehouse import Lakehouse
from spark_jobs.lakehouse.parquet import parquet_file
from spark_jobs.lakehouse.reading import data_file_paths
from spark_jobs.objects.place import Place

_MOST_FILES = 1_000
"""Of which footers are looked at, the newest first."""


class BatchFailedError(KeyfoldError):
    """A batch failed, and nothing that it said tells people why."""


@contextmanager
def damage_told(lakehouse: Lakehouse, job: KeyedJob) -> Iterator[None]:
    """Tell of a damaged event table, where that is why a run of a job has failed.

    Raises:
        KeyfoldError: in place of what Delta, Parquet or a worker said.
    """
    try:
        yield
    except (DeltaError, pl.exceptions.PolarsError, pa.ArrowException, FileNotFoundError, BatchFailedError) as error:
        events = lakehouse.events(job.stream)
        if (damage := _damage_of(events)) is not None:
            raise KeyfoldError(
                f"job {job.name} reads events.{job.stream} in {events}, which cannot be read: {damage}; restore it, or run "
                f"`{lakehouse.command('ingest', job.stream, '--rebuild')}`, and then this job with --full-refresh"
            ) from error
        if isinstance(error, BatchFailedError):
            raise
        raise KeyfoldError(
            f"job {job.name} broke off: {first_line(error)}; run it again, it goes on where it was (if it breaks off there "
            "again, start a new generation with --full-refresh)"
        ) from error


def _damage_of(table: Place) -> str | None:
    """What is wrong with a table; None where its log, and the footers of its newest files, can be read."""
    try:
        files = data_file_paths(table)
    except DeltaError as error:
        return f"its log says {first_line(error)}"
    for file in files[-_MOST_FILES:]:
        try:
            with parquet_file(file):
                pass
        except (OSError, pa.ArrowException) as error:
            return f"{file.name}: {first_line(error)}"
    return None
