"""Name every reader that still needs files or log entries of a table, from the journals of jobs and branches.

Whoever deletes asks here: maintenance, before it deletes files, and the trimming of logs. A running backup needs all of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from keyfold.errors import Locked
from keyfold.keyed.generation.generation_record import FORMAT
from keyfold.keyed.generation.generations import Generation, all_generations, waits_to_go_live
from keyfold.keyed.generation.live_record import live_generation_name
from keyfold.keyed.plans.input_tables import input_id, positions_explained
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.log_changes import next_change
from keyfold.lakehouse.paths import table_id
from keyfold.lakehouse.positions import check_position
from keyfold.storage.place import Place


@dataclass(frozen=True)
class Reader:
    """A generation of a job that reads a table.

    Attributes:
        name: the job and its generation, for messages.
        version: the first version whose files it may still have to open.
        read: the version that it read last, whose log entry identifies the table; in its first run, the version it reads.
    """

    name: str
    version: int
    read: int


def readers(lakehouse: Lakehouse, name: str, table: Place) -> Iterator[Reader]:
    """The generations that have begun to read a table.

    These are a job's live generation, a newer one that is being filled, and branches that can be promoted, also those whose
    promotion was interrupted. Another newer one without a running job was left by a killed refresh and will not be continued, nor
    will a branch of a range of time.

    Args:
        lakehouse: the lakehouse of the jobs.
        name: the table's name in plans, `events.<stream>`.
        table: the table's folder.

    Raises:
        KeyfoldError: a backup is running, a journal cannot be read, or the position of a job is not known.
    """
    if lakehouse.backup.is_held():
        raise Locked(
            f"a backup of {lakehouse.home} is running, which still has to copy files; delete them when it has ended"
        )
    identity = table_id(table) if name.startswith("events.") else None
    for generation in all_generations(lakehouse):
        job = generation.record.job
        if not _is_continued(lakehouse, job, generation):
            continue
        read = generation.record.input_ids.get(name)
        # A generation that read other content of this name, or that another version of Keyfold wrote, cannot be continued.
        if read is None or generation.record.format != FORMAT:
            continue
        if read != (identity or input_id(lakehouse, name, read.partition("/")[0])):
            continue
        where = f"branch {generation.name} of job {job}" if generation.is_branch else f"job {job}, {generation.name}"
        with positions_explained(
            where, name, "run it with --full-refresh, or remove its folder if it is no longer used"
        ):
            versions = _versions_needed(generation, name, table)
        if versions is not None:
            yield Reader(where, *versions)


def _is_continued(lakehouse: Lakehouse, job: str, generation: Generation) -> bool:
    """Whether a generation is live, may become live, or is being filled."""
    if generation.is_branch:
        return not any(generation.record.span) or lakehouse.job(job).is_held()
    live = live_generation_name(lakehouse, job)
    if live is None or generation.name <= live:
        return live in (None, generation.name)
    return waits_to_go_live(generation.folder, live) or lakehouse.job(job).is_held()


def _versions_needed(generation: Generation, name: str, table: Place) -> tuple[int, int] | None:
    """The first version to read and the one read last; None if only the current version or later ones will be read."""
    journal, done = generation.journal, generation.journal.last_done()
    position = done.positions.get(name) if done else None
    if position is not None:
        # A run without new data makes no batch, so many commits of maintenance may follow the position: skip them.
        return next_change(table, position), check_position(table, position).version
    # A generation's first run reads one version as a whole.
    plan = journal.plan(done.batch + 1 if done else 0)
    planned = [one.position.version for one in plan.inputs if one.table == name] if plan else []
    return (planned[0], planned[0]) if planned else None
