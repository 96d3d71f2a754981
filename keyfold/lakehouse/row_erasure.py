"""Erase, move or change rows of a table: in its current version, and on request in its history and on the disk.

Each file that holds such rows is written again, one for one. Readers of the table's additions notice that rows were changed, and are
refreshed by whoever calls this (`runs.erasing`, `runs.correcting`, `runs.quarantining`).
"""

import time
from collections.abc import Callable, Collection, Sequence
from urllib.parse import unquote

import polars as pl
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.transaction import AddAction, RemoveAction

from keyfold.lakehouse.commits import NO_HOOKS, add_action
from keyfold.lakehouse.data_files import write_data_file
from keyfold.lakehouse.fail_points import fail_point
from keyfold.lakehouse.files import read_json, sync_folder, write_json
from keyfold.lakehouse.presence import named_files
from keyfold.lakehouse.reading import scan_in_columns
from keyfold.storage.lease import check_held
from keyfold.storage.place import Place, stays_below

_COUNTED = "keyfold.erased_rows"

_ADDED = "_added.json"
"""In a table's folder, where Delta ignores names that begin with _: the names of added rows, by the number of their commit."""
_ADDITIONS = "keyfold.added_rows"
"""The application of these commits. Their number is in the log, since a name of its own for each row would stay there for ever."""

POSITION = ("#path", "#row")
"""Columns that callers of `change_rows` get besides the table's: a row's file, and its number there."""

Rows = Callable[[pl.LazyFrame], pl.LazyFrame]


def files_with(table: Place, which: pl.Expr) -> list[str]:
    """Return the paths of the files that `erase_rows` would write again."""
    return _files_with(DeltaTable(str(table)), table, lambda rows: rows.filter(which))


def add_rows(table: Place, rows: pl.DataFrame, schema: pa.Schema, names: Sequence[str]) -> int:
    """Append rows that come from elsewhere, unless they were before, and return the number of the last addition.

    For `erased_rows`, they are the opposite of erased rows.

    Call `forget_added` once they are gone where they come from, and nothing is left to do. Call both only while no other process writes
    to the table.

    Args:
        table: an existing Delta table.
        rows: the rows.
        schema: columns of the table.
        names: names each row, and no other, until then.

    Raises:
        OSError: the disk is full or fails; the table was not changed.
    """
    delta, record = DeltaTable(str(table)), table / _ADDED
    number = delta.transaction_version(_ADDITIONS) or 0
    # A later number is of a commit that was cut off, and rows that it names were not added.
    added = {int(at): ones for at, ones in _added(record).items() if int(at) <= number}
    known = {name for ones in added.values() for name in ones}
    new = [at for at, name in enumerate(names) if name not in known]
    if new:
        added[number + 1] = [names[at] for at in new]
        write_json(record, {str(at): ones for at, ones in added.items()})
        fail_point("added: named")
        total = Transaction(_COUNTED, (delta.transaction_version(_COUNTED) or 0) - len(new))
        actions: list[AddAction | RemoveAction] = [add_action(write_data_file(rows[new], table, schema))]
        _commit(delta, table, actions, [Transaction(_ADDITIONS, number := number + 1), total])
        fail_point("added: committed")
    return number


def forget_added(table: Place, names: Collection[str]) -> None:
    """Forget names of added rows once all that belongs to their move is done; those of a call that was cut off stay.

    Raises:
        OSError: the disk is full or fails.
    """
    record, forgotten = table / _ADDED, frozenset(names)
    left = {at: [name for name in ones if name not in forgotten] for at, ones in _added(record).items()}
    if left := {at: ones for at, ones in left.items() if ones}:
        write_json(record, left)
    else:
        record.unlink(missing_ok=True)


def _added(record: Place) -> dict[str, list[str]]:
    try:
        return read_json(record, "remove it if no `keyfold quarantine` was cut off")
    except FileNotFoundError:
        return {}


def unfinished_additions(table: Place) -> dict[str, int]:
    """Return the names of rows that were added and not forgotten since, with the number of their addition."""
    if not (added := _added(table / _ADDED)):
        return {}
    number = DeltaTable(str(table)).transaction_version(_ADDITIONS) or 0
    return {name: int(at) for at, names in added.items() if int(at) <= number for name in names}


def last_transaction(table: Place, name: str) -> int:
    """Return the number of the last commit to a table with a transaction; -1 if there is none."""
    number = DeltaTable(str(table)).transaction_version(name)
    return -1 if number is None else number


def numbered_rows(delta: DeltaTable, table: Place, path: str) -> pl.LazyFrame:
    """Scan a file of a table, with the columns `POSITION`."""
    schema = pa.schema(delta.schema().to_arrow())  # type: ignore[arg-type]
    return scan_in_columns([table / path], schema).with_row_index("#row").with_columns(pl.lit(path).alias("#path"))


def change_rows(
    table: Place, found: Rows | Collection[str], change: Rows, transaction: Transaction | None = None
) -> int:
    """Write each file of a table that has rows to change again, in one commit, and return how many rows are gone.

    Older versions of the table keep them, until `forget`. Call it only while no other process writes to the table.

    Args:
        table: an existing Delta table.
        found: gives those of a file's rows that are to be changed or erased; or the paths of the files that have such rows.
        change: gives what becomes of all rows of such a file, which has the columns `POSITION` as well.
        transaction: is in the commit, for a caller that must know whether it was done.

    Raises:
        OSError: the disk is full or fails; the table was not changed.
    """
    delta = DeltaTable(str(table))
    now, schema = time.time_ns() // 1_000_000, pa.schema(delta.schema().to_arrow())  # type: ignore[arg-type]
    actions, gone = list[AddAction | RemoveAction](), 0
    for path in _files_with(delta, table, found) if callable(found) else found:
        before = numbered_rows(delta, table, path).collect()
        left = change(before.lazy()).drop(POSITION).collect()
        gone += before.height - left.height
        actions.append(RemoveAction(path, True, now, (table / path).stat().st_size, {}))
        if left.height:
            actions.append(add_action(write_data_file(left, table, schema)))
    if actions:
        fail_point("erasure: files written")
        # The total is kept as a transaction number: it outlives the log entry.
        total = Transaction(_COUNTED, (delta.transaction_version(_COUNTED) or 0) + gone)
        _commit(delta, table, actions, [total, *([transaction] if transaction else ())])
        fail_point("erasure: committed")
    return gone


def erase_rows(table: Place, which: pl.Expr, transaction: Transaction | None = None) -> int:
    """Delete the rows that match a condition, and return their number; see `change_rows`. A row for which it is NULL stays."""
    is_left = ~which.fill_null(value=False)
    return change_rows(table, lambda rows: rows.filter(which), lambda rows: rows.filter(is_left), transaction)


def _commit(
    delta: DeltaTable, table: Place, actions: list[AddAction | RemoveAction], transactions: list[Transaction]
) -> None:
    check_held()
    delta.create_write_transaction(
        actions,
        mode="append",
        schema=delta.schema(),
        commit_properties=CommitProperties(app_transactions=transactions),
        post_commithook_properties=NO_HOOKS,
    )
    sync_folder(table / "_delta_log")


def erased_rows(table: Place) -> int:
    """Return the number of rows that were ever erased from a table, less those that `add_rows` added."""
    return DeltaTable(str(table)).transaction_version(_COUNTED) or 0


def forget(table: Place) -> int:
    """Delete all data files that are not part of a table's newest version, and return their number.

    Call it only while no process reads or writes the table: files that are not committed yet are deleted too.
    """
    delta = DeltaTable(str(table))
    check_held()
    # No retention period on purpose: erased rows must leave the disk now. The files are only listed, and deleted here: a log that
    # somebody made may name files elsewhere, and VACUUM's two commits are not needed.
    gone = [unquote(path) for path in delta.vacuum(retention_hours=0, dry_run=True, enforce_retention_duration=False)]
    gone = [path for path in gone if stays_below(path)]
    for path in gone:
        (table / path).unlink(missing_ok=True)
    return len(gone)


def _files_with(delta: DeltaTable, table: Place, found: Rows) -> list[str]:
    schema = delta.to_pyarrow_dataset().schema
    paths = list(named_files(delta))
    # Columns that were added to the table after a file was written are NULL. All files at once: of most, the footer's statistics say that
    # they have none of the rows, and the rest is waiting.
    rows = [found(scan_in_columns([table / path], schema)).select(pl.len()) for path in paths]
    return [path for path, count in zip(paths, pl.collect_all(rows), strict=True) if count.item()]
