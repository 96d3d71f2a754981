"""Erase, move or change rows of a table: in its current version, and on request in its history and on the disk.

Each file that holds such rows is written again, one for one. Readers of the table's additions notice that rows were changed, and are
refreshed by whoever calls this (`runs.erasing`, `runs.correcting`, `runs.quarantining`).
"""

import time
from collections.abc import Callable, Sequence
from urllib.parse import unquote

import polars as pl
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.transaction import AddAction, RemoveAction

from keyfold.lakehouse.commits import NO_HOOKS, add_action
from keyfold.lakehouse.data_files import write_data_file
from keyfold.lakehouse.fail_points import reached
from keyfold.lakehouse.files import sync_folder
from keyfold.lakehouse.presence import named_files
from keyfold.lakehouse.reading import scan_in_columns
from keyfold.storage.lease import check_held
from keyfold.storage.place import Place, stays_below

_COUNTED = "keyfold.erased_rows"

Rows = Callable[[pl.LazyFrame], pl.LazyFrame]


def files_with(table: Place, which: pl.Expr) -> list[str]:
    """Return the paths of the files that `erase_rows` would write again."""
    return _files_with(DeltaTable(str(table)), table, lambda rows: rows.filter(which))


def add_rows(table: Place, rows: pl.DataFrame, schema: pa.Schema, names: Sequence[str]) -> None:
    """Append rows that come from elsewhere, unless they were before; for `erased_rows`, they are the opposite of erased rows.

    Args:
        table: an existing Delta table.
        rows: the rows.
        schema: columns of the table.
        names: names each row, and no other, in the table's log.

    Raises:
        OSError: the disk is full or fails; the table was not changed.
    """
    delta = DeltaTable(str(table))
    new = [at for at, name in enumerate(names) if delta.transaction_version(name) is None]
    if new:
        added = [Transaction(names[at], 0) for at in new]
        total = Transaction(_COUNTED, (delta.transaction_version(_COUNTED) or 0) - len(new))
        _commit(delta, table, [add_action(write_data_file(rows[new], table, schema))], [*added, total])


def change_rows(table: Place, found: Rows, change: Rows) -> int:
    """Write each file of a table that has rows to change again, in one commit, and return how many rows are gone.

    Older versions of the table keep them, until `forget`. Call it only while no other process writes to the table.

    Args:
        table: an existing Delta table.
        found: gives those of a file's rows that are to be changed or erased.
        change: gives what becomes of all rows of such a file.

    Raises:
        OSError: the disk is full or fails; the table was not changed.
    """
    delta = DeltaTable(str(table))
    now, schema = time.time_ns() // 1_000_000, pa.schema(delta.schema().to_arrow())  # type: ignore[arg-type]
    actions, gone = list[AddAction | RemoveAction](), 0
    for path in _files_with(delta, table, found):
        before = scan_in_columns([table / path], schema).collect()
        left = change(before.lazy()).collect()
        gone += before.height - left.height
        actions.append(RemoveAction(path, True, now, (table / path).stat().st_size, {}))
        if left.height:
            actions.append(add_action(write_data_file(left, table, schema)))
    if actions:
        reached("erasure: files written")
        # The total is kept as a transaction number: it outlives the log entry.
        _commit(delta, table, actions, [Transaction(_COUNTED, (delta.transaction_version(_COUNTED) or 0) + gone)])
        reached("erasure: committed")
    return gone


def erase_rows(table: Place, which: pl.Expr) -> int:
    """Delete the rows that match a condition, and return their number; see `change_rows`. A row for which it is NULL stays."""
    return change_rows(table, lambda rows: rows.filter(which), lambda rows: rows.filter(~which.fill_null(False)))


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
    # Columns that were added to the table after a file was written are NULL.
    rows = {path: found(scan_in_columns([table / path], schema)) for path in named_files(delta)}
    return [path for path, some in rows.items() if some.select(pl.len()).collect().item()]
