"""Rows taken out of a table for good: out of its files, out of its history, and off the disk.

Each file that holds such rows is written anew without them, one for one, and the commit says which stands for which: so
whoever reads the table's additions goes on as if those rows had never come.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True)
class ErasedRows:
    """What was taken out of a table.

    Attributes:
        rows: how many.
        events: that they stood for, by the expression that was given.
    """

    rows: int
    events: int


def count_rows_of(table: Place, which: pl.Expr, events: pl.Expr | None = None) -> ErasedRows:
    """How many rows of a table a condition holds for, without touching them."""
    delta = DeltaTable(str(table))
    found = [_counted(_rows(delta, table, path), which, events) for path in _files(delta)]
    return ErasedRows(sum(one.rows for one in found), sum(one.events for one in found))


def erase_rows(
    table: Place, which: pl.Expr, events: pl.Expr | None = None, masked: Mapping[str, pl.Expr] | None = None
) -> ErasedRows:
    """Take the rows that a condition holds for out of a table; its older versions can be read no more after `forget`.

    Call it where nobody else writes to the table.

    Args:
        table: an existing Delta table.
        which: the rows.
        events: how many events rows stand for.
        masked: by column, what it is to be in the rows that stay.

    Raises:
        OSError: the disk is full or fails; the table is as it was.
    """
    delta = DeltaTable(str(table))
    schema = pa.schema(delta.schema().to_arrow())  # type: ignore[arg-type]
    masks = masked or {}
    is_masked = pl.any_horizontal(pl.lit(value=False), *(pl.col(name).ne_missing(to) for name, to in masks.items()))
    counted = {path: _counted(_rows(delta, table, path), which, events, is_masked) for path in _files(delta)}
    held = [path for path, one in counted.items() if one.rows or one.is_masked]
    if not held:
        return ErasedRows(0, 0)
    now, actions, mapping = time.time_ns() // 1_000_000, [], {}
    for path in held:
        # A condition of NULL holds for no row: what cannot be told to be wanted out stays.
        left = _rows(delta, table, path).filter(~which.fill_null(False)).with_columns(**masks).collect()
        new = write_data_file(left, table, schema) if left.height else None
        mapping[path] = new.path if new else None
        actions.append(RemoveAction(path, True, now, (table / path).stat().st_size, {}))
        if new:
            statistics = statistics_of(new.rows, new.first, new.last)
            actions.append(AddAction(new.path, new.bytes, {}, now, True, statistics))
    reached("erasure: files written")
    gone = sum(counted[path].rows for path in held)
    # As a transaction's number: it is of one commit with the rows that go, and outlives the log entry.
    told = Transaction(_COUNTED, (delta.transaction_version(_COUNTED) or 0) + gone)
    properties = CommitProperties(custom_metadata={ERASED: json.dumps(mapping)}, app_transactions=[told])
    check_held()
    delta.create_write_transaction(
        actions, mode="append", schema=delta.schema(), commit_properties=properties, post_commithook_properties=NO_HOOKS
    )
    sync_folder(table / "_delta_log")
    reached("erasure: committed")
    return ErasedRows(gone, sum(counted[path].events for path in held))


def erased_rows(table: Place) -> int:
    """How many rows were ever erased from a table."""
    return DeltaTable(str(table)).transaction_version(_COUNTED) or 0


def forget(table: Place) -> int:
    """Delete every data file that a table's newest version does not consist of; gives how many were deleted.

    Call it where nobody reads or writes the table: files that wait for their commit go too.
    """
    delta = DeltaTable(str(table))
    check_held()
    # Below Delta's least retention on purpose: what was erased must be off the disk now.
    return len(delta.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False))


def forget_log(table: Place) -> None:
    """Delete the entries of a table's log before its newest version, whose statistics may hold least and greatest values.

    Call it where nobody reads the table by what came since a version, as jobs read event tables.
    """
    delta = DeltaTable(str(table))
    check_held()
    delta.create_checkpoint()
    log, newest = table / "_delta_log", f"{delta.version():020d}"
    for path in sorted(log.iterdir()):
        # The newest entry stays: a table whose log has a checkpoint alone looks cut short to some readers.
        if path.name[:20].isdigit() and path.name[:20] < newest:
            path.unlink(missing_ok=True)
    sync_folder(log)


def _files(delta: DeltaTable) -> list[str]:
    return [unquote(path) for path in delta.get_add_actions()["path"].to_pylist()]


def _rows(delta: DeltaTable, table: Place, path: str) -> pl.LazyFrame:
    """The rows of a file, with the columns that came to the table after it was written, empty."""
    return scan_in_columns([table / path], delta.to_pyarrow_dataset().schema)


@dataclass(frozen=True)
class _Counted(ErasedRows):
    is_masked: bool


def _counted(rows: pl.LazyFrame, which: pl.Expr, events: pl.Expr | None, is_masked: pl.Expr | None = None) -> _Counted:
    found = rows.filter(which)
    wanted = [pl.len().alias("rows"), (events if events is not None else pl.lit(0)).cast(pl.Int64).alias("events")]
    count, stand_for = found.select(wanted).collect().row(0)
    masked = is_masked is not None and bool(rows.select(is_masked.any()).collect().item())
    return _Counted(int(count), int(stand_for or 0), masked)
