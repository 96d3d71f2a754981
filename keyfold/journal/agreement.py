"""Check that the tables agree with the journal. They do not if one of them was restored from a backup without the others.

A batch writes in this order: plan, data files and state, commit record, Delta commits of the tables.
So a crash can leave only the commits of the last batch missing. Any other difference is refused: the run would skip batches, or
write them twice.
"""

from collections.abc import Mapping

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from keyfold.errors import Damaged, first_line
from keyfold.journal.journal import D, Journal, P
from keyfold.journal.records import Done
from keyfold.lakehouse.commits import committed_digest
from keyfold.lakehouse.presence import check_files_are_there, empty_entries, take_back
from keyfold.storage.place import Place
from keyfold.storage.store_failures import failure_of_store


def check_tables(
    journal: Journal[P, D], tables: Mapping[str, Place], ids: Mapping[str, str], identity: str, where: str, remedy: str
) -> dict[str, DeltaTable]:
    """Check that the tables have the batches that the journal has committed, and no others.

    Commits of the last batch may be missing (`has_taken_all`). An empty log entry of the last batch, which a power failure
    leaves, is removed.

    Args:
        tables: folders of the tables, by name.
        ids: Delta's ids of the tables when the journal began, of those that may not get another.
        identity: name of the generation in Delta's transactions, which are named `identity/table`.
        where: name of the journal's owner in errors.
        remedy: what to do if they do not agree.

    Returns:
        The opened tables, by name.

    Raises:
        KeyfoldError: a table is gone, is another one, lacks data files, is older or newer than the journal, or has another
            history.
    """
    # The previous record too: it has the tables' last batches from before the last batch, whose commits may be missing.
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
        # A table that was dropped and created again has the same path and columns, but another id.
        if name in ids and str(table.metadata().id) != ids[name]:
            raise Damaged(f"{where}: {path} is not the table it wrote to, but another one; put that back, or {remedy}")
        taken = table.transaction_version(f"{identity}/{name}")
        expected = done.last_written.get(name) if done else None
        empty = empty_entries(path, table.version())
        is_behind = expected is not None and (taken is None or taken < expected)
        is_last = done is not None and expected == done.batch and is_behind
        if empty == [table.version()] and is_last:
            # A power failure left the last batch's log entry empty: the commit is made again.
            take_back(path, empty[0])
            opened[name] = table = DeltaTable(str(path))
        elif empty:
            raise Damaged(
                f"{where}: the log of its table {name} in {path} is damaged: entry {empty[0]} is empty, so that its rows are "
                f"missing from the table; restore it, or {remedy}"
            )
        # If the last batch's commit is missing, compare with the record before it.
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
        # Only the last batch's commit may be missing, and the table must have the commit before it.
        previous = before.last_written.get(name) if before else None
        if done is None or expected != done.batch or (before is not None and taken != previous):
            raise Damaged(
                f"{where}: table {name} has taken {'no batch' if taken is None else f'no batch after {taken}'}, but its "
                f"journal {journal.folder} says that batch {expected} was written to it: the table is older than the "
                f"journal (a restored backup?); restore the one that belongs to the journal, or {remedy}"
            )
    for name, path in tables.items():
        # Only on a disk: in an object store a listing costs a request, and the conservation check does it.
        if path.local_path is not None:
            check_files_are_there(path, opened[name], f"{where}: its table {name}", remedy)
    return opened


def _check_history(table: DeltaTable, application: str, known: int | None, what: str, remedy: str) -> None:
    """Check by the digest of its files that a table's last batch is the journal's batch, if the journal has the digest."""
    if known is not None and known != committed_digest(table, application):
        raise Damaged(
            f"{what} is not the one in its journal: the table is of another history (a restored backup?); restore the one "
            f"that belongs to the journal, or {remedy}"
        )


def has_taken_all(record: Done | None, opened: Mapping[str, DeltaTable], identity: str) -> bool:
    """Whether opened tables have the commits of a journal's newest commit record, and so of all before it."""
    return record is None or all(
        table.transaction_version(f"{identity}/{name}") == record.last_written.get(name)
        for name, table in opened.items()
    )
