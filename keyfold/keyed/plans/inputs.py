"""The tables that a job reads: whether they are the ones that it has read so far, and what has come to them since."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from keyfold.errors import Damaged
from keyfold.keyed.generation.generations import Generation, live_generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.several_inputs import Input
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.log_changes import Changes, RowsChangedError, changes_since, snapshot
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
        if table_id(_named_table(lakehouse, name)) != born:
            made_anew = "" if name.startswith("events.") else " (its job was refreshed, moved, edited or promoted)"
            raise Damaged(f"{where}: {name} is not the table that it has read, but another one{made_anew}; {remedy}")
    for name, position in _newest_positions(generation).items():
        with positions_explained(where, name, remedy):
            check_position(_named_table(lakehouse, name), position)


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
    return {one.table: _table_of(lakehouse, one) for one in job.all_inputs.values()}


def rebuild_command(lakehouse: Lakehouse, job: KeyedJob, table: str) -> str:
    """The command that makes a table anew which a job reads."""
    one = next(one for one in job.all_inputs.values() if one.table == table)
    if one.producer is not None:
        return lakehouse.command("run", one.producer, "--full-refresh")
    return lakehouse.command("ingest", one.stream.name, "--rebuild")


def produced_until(lakehouse: Lakehouse, job: KeyedJob) -> dict[str, datetime]:
    """The watermarks of the jobs whose tables a job reads, by the name of the input.

    Ask before the tables are looked at: what they have by then is all that was written up to these watermarks, or more.
    """
    reached: dict[str, datetime] = {}
    for name, one in job.all_inputs.items():
        live = live_generation(lakehouse, one.producer) if one.producer else None
        done = live.journal.last_done() if live else None
        if live is not None and done is not None:
            clock = live.clock()
            # A run in which nothing was due moves the clock alone, once all before it is committed.
            reached[name] = max(done.watermark, clock.watermark) if clock else done.watermark
    return reached


def _table_of(lakehouse: Lakehouse, one: Input) -> Place:
    if one.producer is None:
        return lakehouse.events(one.stream.name)
    live = live_generation(lakehouse, one.producer)
    # Of a producer that has never run, where its table would be: whoever looks finds none.
    return live.table(one.table) if live else lakehouse.job(one.producer) / "tables" / one.table


def _named_table(lakehouse: Lakehouse, name: str) -> Place:
    """The folder of a table that a generation has read, by the name that it has for it."""
    is_stream = name.startswith("events.")
    return lakehouse.events(name.removeprefix("events.")) if is_stream else lakehouse.table(name)


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
