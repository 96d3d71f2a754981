"""Collect run statistics of all batches of all jobs in a table, from the jobs' journals.

A journal drops old records, but keeps those of the last hundred batches. The table keeps all.
"""

from datetime import timedelta

import polars as pl
import pyarrow as pa

from keyfold.columns import required
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.generation.live_record import live_generation_name
from keyfold.lakehouse import Lakehouse, create_table, exclusive
from keyfold.lakehouse.commits import append_files, committed_batch
from keyfold.lakehouse.data_files import write_data_file
from keyfold.storage.place import Place
from keyfold.stream import TIMESTAMP

RUN_STATISTICS = pa.schema(
    [
        required("job", pa.string(), "The job"),
        required("generation", pa.string(), "Its generation"),
        required("batch", pa.int64(), "Number of the batch in the generation, from 0"),
        required("written_at", TIMESTAMP, "When it was written (UTC)"),
        required("events", pa.int64(), "Events that it read"),
        required("rows", pa.int64(), "Rows that it wrote to the job's own table"),
        required("late", pa.int64(), "Rows of the late table"),
        required("open_events", pa.int64(), "Events in open state after it"),
    ]
)


_PATIENCE = timedelta(seconds=30)


def collect_statistics(lakehouse: Lakehouse, jobs: list[str]) -> int:
    """Add new batches to `monitoring.run_statistics`; returns their number."""
    table = lakehouse.monitoring("run_statistics")
    # Wait for the lock: two jobs may end at the same time, and a commit is short.
    with exclusive(table.parent, "monitoring", patience=_PATIENCE):
        create_table(table, RUN_STATISTICS)
        return sum(_collect(lakehouse, job, table) for job in jobs)


def _collect(lakehouse: Lakehouse, job: str, table: Place) -> int:
    generation = live_generation(lakehouse, job)
    if generation is None:
        return 0
    done = committed_batch(table, generation.identity)
    records = [record for record in generation.journal.recent() if done is None or record.batch > done]
    if not records:
        return 0
    late = f"late.{job}"
    rows = pl.DataFrame(
        {
            "job": job,
            "generation": generation.name,
            "batch": [record.batch for record in records],
            "written_at": [record.finished_at for record in records],
            "events": [record.counts.events for record in records],
            "rows": [record.counts.rows.get(job, 0) for record in records],
            "late": [record.counts.rows.get(late, 0) for record in records],
            "open_events": [record.totals.open_events for record in records],
        },
        schema_overrides={"written_at": pl.Datetime("us", "UTC")},
    )
    # The commit records the newest batch, so that no batch is added twice.
    append_files(table, [write_data_file(rows, table, RUN_STATISTICS)], generation.identity, records[-1].batch)
    return len(records)


def last_batch(lakehouse: Lakehouse, job: str) -> int | None:
    """Return the newest batch of a job's live generation; None before the first."""
    live = live_generation(lakehouse, job)
    done = live.journal.last_done() if live else None
    return done.batch if done else None


def files_written(
    lakehouse: Lakehouse, job: str, table: str, generation: str, since: int, until: int
) -> dict[int, list[Place]] | None:
    """Return the files that batches of a job wrote to a table, by batch; a batch without files is left out.

    Args:
        job: name of the job.
        table: name of the table.
        generation: the generation that must be live: another generation has other tables.
        since: the first batch, exclusive.
        until: the last batch, inclusive.

    Returns:
        The files; None if another generation is live, a record is too old, or a file has been deleted.
    """
    live = live_generation(lakehouse, job) if live_generation_name(lakehouse, job) == generation else None
    if live is None:
        return None
    written: dict[int, list[Place]] = {}
    for batch in range(since + 1, until + 1):
        done = live.journal.done(batch)
        if done is None:
            return None
        files = [live.table(table) / file.path for file in done.tables.get(table, ())]
        # All or none: a part of a batch's rows could give a wrong result for the batch.
        if not all(file.exists() for file in files):
            return None
        if files:
            written[batch] = files
    return written
