"""The tables that a job reads: whether they are the ones that it has read so far, and what has come to them since."""

from collections.abc import Iterator
from contextlib import contextmanager

from keyfold.errors import Damaged
from keyfold.keyed.contract import KeyedJob
from keyfold.keyed.generations import Generation
from keyfold.keyed.several_inputs import Input
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.changes import Changes, RowsChangedError, changes_since, snapshot
from keyfold.lakehouse.positions import LogGoneError, OtherHistoryError, Position, check_position
from keyfold.lakehouse.tables import table_id
from keyfold.storage.place import Place

REMEDY = "start a new generation with --full-refresh"


def check_inputs(lakehouse: Lakehouse, generation: Generation, where: str, remedy: str = REMEDY) -> None:
    """Check that the tables which a generation has read, or has planned to read, are the same tables with the same history.

    Args:
        lakehouse: where the tables are.
        generation: the reader.
        where: what to call it in errors.
        remedy: what else to do than to restore the tables.

    Raises:
        KeyfoldError: a table is another one, was restored and written again, or its log lacks the position's entry.
    """
    for name, born in generation.record["input_ids"].items():
        if table_id(input_table(lakehouse, name)) != born:
            raise Damaged(f"{where}: {name} is not the table that it has read, but another one; {remedy}")
    for name, position in _newest_positions(generation).items():
        with positions_explained(where, name, remedy):
            check_position(input_table(lakehouse, name), position)


def changes_for(job: str, declared: Input, table: Place, position: Position | None) -> Changes:
    """What has come to the table of a job's input since a position; all that it consists of where there is none.

    Raises:
        KeyfoldError: that cannot be told from the table any more; names the remedy.
    """
    with positions_explained(f"job {job}", declared.table, REMEDY):
        try:
            time = declared.stored_time
            return snapshot(table, time) if position is None else changes_since(table, position, time)
        except RowsChangedError as error:
            raise Damaged(
                f"job {job}: rows of {declared.table} were changed or deleted by other than ingest, after it had begun to read "
                f"them ({error}), and what they had led to cannot be taken back one by one; see that the event table is "
                f"right, then {REMEDY}"
            ) from None


def input_tables(lakehouse: Lakehouse, job: KeyedJob) -> dict[str, Place]:
    """The folders of the tables that a job reads, by name."""
    return {one.table: input_table(lakehouse, one.table) for one in job.all_inputs.values()}


def input_table(lakehouse: Lakehouse, name: str) -> Place:
    """The folder of a table that a job reads."""
    return lakehouse.events(name.removeprefix("events."))


@contextmanager
def positions_explained(where: str, table: str, remedy: str) -> Iterator[None]:
    """Name the remedy where a position in a table is of no use.

    Raises:
        KeyfoldError: in place of what the table's log says.
    """
    try:
        yield
    except OtherHistoryError as error:
        raise Damaged(
            f"{where} has read another history of {table}: {error} (a restored backup, and other events since?); restore "
            f"both from one backup, or {remedy}"
        ) from None
    except LogGoneError as error:
        raise Damaged(
            f"{where} cannot tell what is new in {table}: {error} (a restored backup, a deleted file, or a log that another "
            f"tool has cleaned up?); restore it, or {remedy}"
        ) from None


def _newest_positions(generation: Generation) -> dict[str, Position]:
    done = generation.journal.last_done()
    planned = {one.table: one.position for plan in generation.journal.pending() for one in plan.inputs}
    return {**(done.positions if done else {}), **planned}
