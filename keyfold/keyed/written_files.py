"""Find what batches of a job have written, from its journal."""

from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.generation.live_record import live_generation_name
from keyfold.lakehouse import Lakehouse
from keyfold.storage.place import Place


def last_batch(lakehouse: Lakehouse, job: str) -> int | None:
    """Return the newest batch of a job's live generation; None before the first."""
    live = live_generation(lakehouse, job)
    last = live.journal.last_done() if live else None
    return last.batch if last else None


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
        record = live.journal.done(batch)
        if record is None:
            return None
        files = [live.table(table) / file.path for file in record.tables.get(table, ())]
        # All or none: a part of a batch's rows could give a wrong result for the batch.
        if not all(file.exists() for file in files):
            return None
        if files:
            written[batch] = files
    return written
