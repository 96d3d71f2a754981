"""What a job wrote to a table lately, file by file, from its journal: for those who look at new rows alone.

Not from the table's log: once maintenance has joined files, that shows rows of long ago among those of today.
"""

from keyfold.keyed.generation.generations import live_generation, live_generation_name
from keyfold.lakehouse import Lakehouse
from keyfold.storage.place import Place


def last_batch(lakehouse: Lakehouse, job: str) -> int | None:
    """The newest batch of a job's live generation, None before the first."""
    live = live_generation(lakehouse, job)
    done = live.journal.last_done() if live else None
    return done.batch if done else None


def files_written(
    lakehouse: Lakehouse, job: str, table: str, generation: str, since: int, until: int
) -> dict[int, list[Place]] | None:
    """The files of the rows that batches of a job wrote to one of its tables, by batch; a batch that wrote none is left out.

    Args:
        lakehouse: where the job's tables are.
        job: its name.
        table: of which of its tables.
        generation: the one that must be live, since a table of another generation is another table.
        since: the last batch that is left out.
        until: the last batch that is not.

    Returns:
        None where it cannot be told any more: of another generation, too long ago, or a file is deleted by now.
    """
    live = live_generation(lakehouse, job) if live_generation_name(lakehouse, job) == generation else None
    if live is None:
        return None
    found: dict[int, list[Place]] = {}
    for batch in range(since + 1, until + 1):
        done = live.journal.done(batch)
        if done is None:
            return None
        files = [live.table(table) / file.path for file in done.tables.get(table, ())]
        # All or none: to look at a part of the rows would say something of a batch that is not so.
        if not all(file.exists() for file in files):
            return None
        if files:
            found[batch] = files
    return found
