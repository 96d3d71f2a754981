"""Whether a journal and what hangs on it tell one story; one that was restored from a backup on its own does not.

The order of a batch's writes says what may differ after a crash, and by how much: plan, work (and a checkpoint's own
state), commit record, the tables' commits, the checkpoint's commit. Whatever differs otherwise was put there by somebody:
going on would skip batches, or make them twice.
"""

from collections.abc import Mapping
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from keyfold.errors import Damaged, first_line
from keyfold.journal.journal import D, Journal, P
from keyfold.lakehouse.commits import committed_digest
from keyfold.lakehouse.empty_entries import empty_entries, take_back
from keyfold.lakehouse.presence import check_files_are_there
from keyfold.storage.place import Place
from keyfold.storage.store_failures import failure_of_store


def check_tables(
    journal: Journal[P, D], tables: Mapping[str, Place], ids: Mapping[str, str], identity: str, where: str, remedy: str
) -> dict[str, DeltaTable]:
    """See that the tables have taken what the journal says was done, and no more; gives them back as they were opened.

    The commits of the last batch may be missing (`has_taken_all`); of one that a loss of power tore, nothing is left.

    Args:
        journal: says which batch wrote to which table last.
        tables: their folders, by name.
        ids: what Delta knew them by when the journal began.
        identity: of the journal; a table's transactions are named `identity/table`.
        where: what to call the journal's owner in errors.
        remedy: what to do where they do not agree.

    Raises:
        KeyfoldError: a table is gone or another one, lacks data files, or table and journal are of different times (says
            which is older) or of different histories.
    """
    # The record before it too: it says what a table had taken where the last batch broke off before its commits.
    done = journal.last_done()
    before = journal.done(done.batch - 1) if done else None
    opened: dict[str, DeltaTable] = {}
    for name, path in tables.items():
        try:
            opened[name] = table = DeltaTable(str(path))
        except TableNotFoundError:
            raise Damaged(
                f"{where}: its table {name} is gone from {path}; restore it, or {remedy}"
            ) from None  # fmt: skip
        except DeltaError as error:
            if (failed := failure_of_store(error, path)) is not None:
                raise failed from error
            raise Damaged(
                f"{where}: the log of its table {name} in {path} is damaged ({first_line(error)}); restore it, or {remedy}"
            ) from error
        # A table that was dropped and made again has the same path and the same columns, and another id.
        if str(table.metadata().id) != ids[name]:
            raise Damaged(f"{where}: {path} is not the table it wrote to, but another one; put that back, or {remedy}")
        taken = table.transaction_version(f"{identity}/{name}")
        expected = done.last_written.get(name) if done else None
        empty = empty_entries(path, table.version())
        is_behind = expected is not None and (taken is None or taken < expected)
        is_last = done is not None and expected == done.batch and is_behind
        if empty == [table.version()] and is_last:
            # The commit of the last batch, torn by a loss of power: it is made again.
            take_back(path, empty[0])
            opened[name] = table = DeltaTable(str(path))
        elif empty:
            raise Damaged(
                f"{where}: the log of its table {name} in {path} is damaged: entry {empty[0]} is empty, so that what it said "
                f"is missing from the table; restore it, or {remedy}"
            )
        # Where the last batch broke off before its commits, what the one before it had left.
        record = done if taken == expected else before
        known = record.last_files.get(name) if record and taken == record.last_written.get(name) else None
        _check_history(
            table, f"{identity}/{name}", known, f"{where}: batch {taken} that table {name} in {path} has taken", remedy
        )
        if taken == expected:
            continue
        if taken is not None and (expected is None or taken > expected):
            raise Damaged(
                f"{where}: table {name} has taken batch {taken}, which its journal {journal.folder} does not know: the "
                f"journal is older than the table (a restored backup?); restore the one that belongs to the table, or {remedy}"
            )
        # The last batch may have broken off before its commits; whatever it had replaced must be there.
        previous = before.last_written.get(name) if before else None
        if done is None or expected != done.batch or (before is not None and taken != previous):
            raise Damaged(
                f"{where}: table {name} has taken {'nothing' if taken is None else f'batch {taken} at last'}, but its "
                f"journal {journal.folder} says that batch {expected} was written to it: the table is older than the "
                f"journal (a restored backup?); restore the one that belongs to the journal, or {remedy}"
            )
    for name, path in tables.items():
        # On a disk alone: of a store each listing is a request, and the check of conservation makes it.
        if isinstance(path, Path):
            check_files_are_there(path, opened[name], f"{where}: its table {name}", remedy)
    return opened


def _check_history(table: DeltaTable, application: str, known: int | None, what: str, remedy: str) -> None:
    """See that the batch that a table has taken is the journal's, by the digest of its files, where the journal has it."""
    if known is not None and known != committed_digest(table, application):
        raise Damaged(
            f"{what} is not the one in its journal: the table is of another history (a restored backup?); restore the one "
            f"that belongs to the journal, or {remedy}"
        )


def has_taken_all(journal: Journal[P, D], opened: Mapping[str, DeltaTable], identity: str) -> bool:
    """Whether tables, as `check_tables` opened them, lack no commit of the last batch: who does not make it again asks."""
    done = journal.last_done()
    return done is None or all(
        table.transaction_version(f"{identity}/{name}") == done.last_written.get(name) for name, table in opened.items()
    )
