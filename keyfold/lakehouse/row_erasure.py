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

Rows = Callable[[pl.LazyFrame], pl.LazyFrame]


def files_with(table: Place, which: pl.Expr) -> list[str]:
    """Return the paths of the files that `erase_rows` would write again."""
    return _files_with(DeltaTable(str(table)), table, lambda rows: rows.filter(which))


def add_rows(table: Place, rows: pl.DataFrame, schema: pa.Schema, names: Sequence[str]) -> None:
    """Append rows that come from elsewhere, unless they were before; for `erased_rows`, they are the opposite of erased rows.

    Call `forget_added` once they are gone where they come from. Call both only while no other process writes to the table.

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
        reached("added: named")
        total = Transaction(_COUNTED, (delta.transaction_version(_COUNTED) or 0) - len(new))
        actions = [add_action(write_data_file(rows[new], table, schema))]
        _commit(delta, table, actions, [Transaction(_ADDITIONS, number + 1), total])
        reached("added: committed")


def forget_added(table: Place) -> None:
    """Forget the names of added rows: none of them is added again."""
    (table / _ADDED).unlink(missing_ok=True)


def _added(record: Place) -> dict[str, list[str]]:
    try:
        return read_json(record, "remove it if no `keyfold quarantine` was cut off")
    except FileNotFoundError:
        return {}


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
    paths = list(named_files(delta))
    # Columns that were added to the table after a file was written are NULL. All files at once: of most, the footer's statistics say that
    # they have none of the rows, and the rest is waiting.
    rows = [found(scan_in_columns([table / path], schema)).select(pl.len()) for path in paths]
    return [path for path, count in zip(paths, pl.collect_all(rows), strict=True) if count.item()]
