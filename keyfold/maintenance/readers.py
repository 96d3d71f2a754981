"""Which versions of an event table keyed jobs have yet to read, from their journals."""

from collections.abc import Iterator
from dataclasses import dataclass

from keyfold.keyed.generation.checkpoint import finished_batch
from keyfold.keyed.generation.generations import FORMAT, Generation, live_generation_name
from keyfold.keyed.plans.inputs import positions_explained
from keyfold.lakehouse import Lakehouse, read_json
from keyfold.lakehouse.locks import is_held
from keyfold.lakehouse.log_changes import next_change
from keyfold.lakehouse.tables import table_id
from keyfold.storage.place import Place


@dataclass(frozen=True)
class Reader:
    """A generation of a job that reads a table.

    Attributes:
        name: of the reader, for people.
        version: the first version that it may yet have to open files of.
        read: the version that it has read last, whose log entry identifies the table; of its first run, the one it reads.
    """

    name: str
    version: int
    read: int


def readers(lakehouse: Lakehouse, name: str, table: Place) -> Iterator[Reader]:
    """The generations that read a table and have begun to.

    Of a job's generations the live one counts, and a newer one that is being filled; a newer one that nobody fills is
    what a refresh that died has left, and nobody will ever go on with it.

    Args:
        lakehouse: where the jobs are.
        name: of the table in plans, `events.<stream>`.
        table: its folder.

    Raises:
        KeyfoldError: a journal cannot be read, or what a job has yet to read cannot be told.
    """
    identity = table_id(table)
    for folder in sorted(lakehouse.home.glob("jobs/*/generation-*")):
        live = live_generation_name(lakehouse, folder.parent.name)
        is_old = live is not None and folder.name < live
        is_dead = live is not None and folder.name > live and not is_held(folder.parent)
        if is_old or is_dead or not (folder / "generation.json").exists():
            continue
        generation = Generation(folder, read_json(folder / "generation.json"))
        # Of another table of that name, or of an earlier version of Keyfold: it is not gone on with either.
        if generation.record.get("input_ids", {}).get(name) != identity or generation.record["format"] != FORMAT:
            continue
        where = f"job {folder.parent.name}, {folder.name}"
        with positions_explained(where, name, "run it with --full-refresh, or remove its folder if it is no more"):
            versions = _versions_needed(generation, name, table)
        if versions is not None:
            yield Reader(where, *versions)


def _versions_needed(generation: Generation, name: str, table: Place) -> tuple[int, int] | None:
    """The first version to read and the one read last; None where nothing older than the table as it is now will be read.

    A batch that Spark has not finished is worked on again, done or not: what counts is where its run began.
    """
    journal, done = generation.journal, generation.journal.last_done()
    if done is None:
        following = 0
    elif finished_batch(generation.checkpoint) == done.batch:
        following = done.batch + 1
    else:
        following = done.batch
    before = journal.done(following - 1) if following else None
    position = before.positions.get(name) if before else None
    if position is not None:
        # A run that finds nothing makes no batch: what lies between may be many nights of maintenance.
        return next_change(table, position), position.version
    # In a generation's first run the whole of one version is read.
    plan = journal.plan(following)
    planned = [one.position.version for one in plan.inputs if one.table == name] if plan else []
    return (planned[0], planned[0]) if planned else None
