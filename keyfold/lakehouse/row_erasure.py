"""Erase rows from a table: from its current files, its history and the disk.

Each file that holds such rows is rewritten without them, one for one, and the commit maps old files to new ones. So readers of
the table's additions continue as if the rows had never been added.
"""

import json
import time
from collections.abc import Mapping
from urllib.parse import unquote

import polars as pl
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.transaction import AddAction, RemoveAction

from keyfold.lakehouse.commits import NO_HOOKS, statistics_of
from keyfold.lakehouse.data_files import write_data_file
from keyfold.lakehouse.fail_points import reached
from keyfold.lakehouse.files import sync_folder
from keyfold.lakehouse.log_changes import ERASED
from keyfold.lakehouse.reading import scan_in_columns
from keyfold.storage.lease import check_held
from keyfold.storage.place import Place

_COUNTED = "keyfold.erased_rows"


def count_rows_of(table: Place, which: pl.Expr) -> int:
    """Count the rows that `erase_rows` would erase."""
    delta = DeltaTable(str(table))
    return sum(_count(_rows(delta, table, path), which) for path in _files(delta))


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
    delta = DeltaTable(str(table))
    schema = pa.schema(delta.schema().to_arrow())  # type: ignore[arg-type]
    masks = masked or {}
    is_masked = pl.any_horizontal(pl.lit(value=False), *(pl.col(name).ne_missing(to) for name, to in masks.items()))
    # Only files with rows to erase or values to mask are rewritten.
    gone, held = 0, list[str]()
    for path in _files(delta):
        rows = _rows(delta, table, path)
        count = _count(rows, which)
        if count or rows.select(is_masked.any()).collect().item():
            held.append(path)
        gone += count
    if not held:
        return 0
    now, actions, mapping = time.time_ns() // 1_000_000, [], {}
    # One file for each: a job that has not read the old file yet reads the new one in its place (`log_changes`).
    for path in held:
        # A row for which the condition is NULL stays.
        left = _rows(delta, table, path).filter(~which.fill_null(False)).with_columns(**masks).collect()
        new = write_data_file(left, table, schema) if left.height else None
        mapping[path] = new.path if new else None
        actions.append(RemoveAction(path, True, now, (table / path).stat().st_size, {}))
        if new:
            statistics = statistics_of(new.rows, new.first, new.last)
            actions.append(AddAction(new.path, new.bytes, {}, now, True, statistics))
    reached("erasure: files written")
    # The total is kept as a transaction number: it is committed with the erasure, and outlives the log entry.
    total = Transaction(_COUNTED, (delta.transaction_version(_COUNTED) or 0) + gone)
    properties = CommitProperties(custom_metadata={ERASED: json.dumps(mapping)}, app_transactions=[total])
    check_held()
    delta.create_write_transaction(
        actions, mode="append", schema=delta.schema(), commit_properties=properties, post_commithook_properties=NO_HOOKS
    )
    sync_folder(table / "_delta_log")
    reached("erasure: committed")
    return gone


def erased_rows(table: Place) -> int:
    """Return the number of rows that were ever erased from a table."""
    return DeltaTable(str(table)).transaction_version(_COUNTED) or 0


def forget(table: Place) -> int:
    """Delete all data files that are not part of a table's newest version, and return their number.

    Call it only while no process reads or writes the table: files that are not committed yet are deleted too.
    """
    delta = DeltaTable(str(table))
    check_held()
    # No retention period on purpose: erased rows must leave the disk now.
    return len(delta.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False))


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


def _files(delta: DeltaTable) -> list[str]:
    return [unquote(path) for path in delta.get_add_actions()["path"].to_pylist()]


def _rows(delta: DeltaTable, table: Place, path: str) -> pl.LazyFrame:
    """Return the rows of a file; columns that were added to the table later are NULL."""
    return scan_in_columns([table / path], delta.to_pyarrow_dataset().schema)


def _count(rows: pl.LazyFrame, which: pl.Expr) -> int:
    return int(rows.filter(which).select(pl.len()).collect().item())
