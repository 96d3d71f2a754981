"""Erase, move or replace rows of a table: in its current version, and on request in its history and on the disk.

Each file that holds such rows is written again, one for one. Readers of the table's additions notice that rows were changed, and are
refreshed by whoever calls this (`runs.erasing`, `runs.correcting`, `runs.quarantining`).
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import or_
from urllib.parse import unquote

import polars as pl
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.transaction import AddAction, RemoveAction

from keyfold.lakehouse.commits import NO_HOOKS, add_action
from keyfold.lakehouse.data_files import write_data_file
from keyfold.lakehouse.fail_points import reached
from keyfold.lakehouse.files import sync_folder
from keyfold.lakehouse.reading import scan_in_columns, scan_table
from keyfold.storage.lease import check_held
from keyfold.storage.place import Place, stays_below

_COUNTED = "keyfold.erased_rows"


def files_with(table: Place, which: pl.Expr) -> list[str]:
    """Return the paths of the files that `erase_rows` would rewrite to erase rows."""
    return list(_counts(DeltaTable(str(table)), table, lambda rows: rows.filter(which)))


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


def erase_rows(table: Place, which: pl.Expr, masked: Mapping[str, pl.Expr] | None = None) -> int:
    """Delete the rows that match a condition, and return their number. After `forget`, older versions of the table cannot be read either.

    Call it only while no other process writes to the table.

    Args:
        table: an existing Delta table.
        which: the condition.
        masked: new values of columns, by name, for the rows that stay.

    Raises:
        OSError: the disk is full or fails; the table was not changed.
    """
    delta, masks = DeltaTable(str(table)), masked or {}
    is_masked = pl.any_horizontal(pl.lit(value=False), *(pl.col(name).ne_missing(to) for name, to in masks.items()))
    erased = _counts(delta, table, lambda rows: rows.filter(which))
    masked_too = _counts(delta, table, lambda rows: rows.filter(is_masked)) if masks else {}
    held = sorted({*erased, *masked_too})
    gone = sum(erased.values())
    if held:
        # A row for which the condition is NULL stays. The total is kept as a transaction number: it outlives the log entry.
        total = Transaction(_COUNTED, (delta.transaction_version(_COUNTED) or 0) + gone)
        _rewrite(delta, table, held, lambda rows: rows.filter(~which.fill_null(False)).with_columns(**masks), [total])
    return gone


def differing_rows(table: Place, new: pl.DataFrame, key: tuple[str, ...]) -> pl.DataFrame:
    """Return the rows of a table that have the key of a new row, with a column `differs`: whether another value differs.

    Args:
        table: an existing Delta table.
        new: rows with unique keys, and some of the table's columns.
        key: columns of the key, never NULL.
    """
    return _matched(scan_table(table), new, key).collect()


def replace_rows(table: Place, new: pl.DataFrame, key: tuple[str, ...]) -> None:
    """Replace the values of rows by those of the new rows with the same key; see `differing_rows`. Older versions keep the old ones.

    Call it only while no other process writes to the table.

    Raises:
        OSError: the disk is full or fails; the table was not changed.
    """
    delta = DeltaTable(str(table))
    held = list(_counts(delta, table, lambda rows: _matched(rows, new, key).filter("differs")))

    def replaced(rows: pl.LazyFrame) -> pl.LazyFrame:
        names = rows.collect_schema().names()
        both = rows.join(
            new.lazy().with_columns(pl.lit(value=True).alias("#new")),
            on=key,
            how="left",
            suffix="#new",
            maintain_order="left",
        )
        values = {
            name: pl.when(pl.col("#new").is_not_null()).then(pl.col(f"{name}#new")).otherwise(pl.col(name))
            for name in new.columns
            if name not in key
        }
        return both.with_columns(**values).select(names)

    if held:
        _rewrite(delta, table, held, replaced, [])


def _matched(rows: pl.LazyFrame, new: pl.DataFrame, key: tuple[str, ...]) -> pl.LazyFrame:
    differs = [pl.col(name).ne_missing(pl.col(f"{name}#new")) for name in new.columns if name not in key]
    both = rows.join(new.lazy(), on=key, how="inner", suffix="#new")
    return both.select(*new.columns, differs=reduce(or_, differs, pl.lit(value=False)))


def _rewrite(
    delta: DeltaTable,
    table: Place,
    held: list[str],
    change: Callable[[pl.LazyFrame], pl.LazyFrame],
    transactions: list[Transaction],
) -> None:
    now, schema = time.time_ns() // 1_000_000, pa.schema(delta.schema().to_arrow())  # type: ignore[arg-type]
    actions: list[AddAction | RemoveAction] = []
    for path in held:
        left = change(_rows(delta, table, path)).collect()
        actions.append(RemoveAction(path, True, now, (table / path).stat().st_size, {}))
        if left.height:
            actions.append(add_action(write_data_file(left, table, schema)))
    reached("erasure: files written")
    _commit(delta, table, actions, transactions)
    reached("erasure: committed")


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


def forget_log(table: Place) -> None:
    """Delete a table's log entries before its newest version, since their statistics may hold erased values.

    Not for tables that are read by version, as jobs read event tables.
    """
    delta = DeltaTable(str(table))
    check_held()
    delta.create_checkpoint()
    log, newest = table / "_delta_log", f"{delta.version():020d}"
    for path in sorted(log.iterdir()):
        # The newest entry stays: some readers report a log that has only a checkpoint as truncated.
        if path.name[:20].isdigit() and path.name[:20] < newest:
            path.unlink(missing_ok=True)
    sync_folder(log)


def _counts(delta: DeltaTable, table: Place, query: Callable[[pl.LazyFrame], pl.LazyFrame]) -> dict[str, int]:
    """Return the paths of the files with rows that a query gives, and the number of these."""
    paths = [unquote(path) for path in delta.get_add_actions()["path"].to_pylist()]
    counts = ((path, query(_rows(delta, table, path)).select(pl.len()).collect().item()) for path in paths)
    return {path: count for path, count in counts if count}


def _rows(delta: DeltaTable, table: Place, path: str) -> pl.LazyFrame:
    """Return the rows of a file; columns that were added to the table later are NULL."""
    return scan_in_columns([table / path], delta.to_pyarrow_dataset().schema)
