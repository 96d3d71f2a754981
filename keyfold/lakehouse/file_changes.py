"""Change rows of a table: its files with such rows are written again, one for one, and replaced in one commit.

A change is prepared first, and committed later, once its caller has recorded it: whoever has the record can commit it. The rows of older
versions stay, until `forget`. Readers of the table's additions notice that rows were changed, and are refreshed by the caller
(`runs.event_rewriting`).
"""

import time
from collections.abc import Callable, Collection, Sequence
from urllib.parse import unquote

import polars as pl
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.transaction import AddAction, RemoveAction
from pydantic import BaseModel, ConfigDict

from keyfold.errors import Locked
from keyfold.lakehouse.commits import add_action, commit_next, digest_of, has_taken, of_files
from keyfold.lakehouse.data_files import PathBelow, WrittenFile, is_staged, write_data_file, write_rows
from keyfold.lakehouse.fail_points import fail_point
from keyfold.lakehouse.presence import named_files
from keyfold.lakehouse.reading import scan_in_columns
from keyfold.storage.lease import check_held
from keyfold.storage.place import Place, stays_below

_ERASED = "keyfold.erased_rows"
"""The application whose number is that of the rows that are gone: it outlives the log's entries."""
_CHANGES = "keyfold.changes"
"""The application whose number is that of the table's changes."""
_TRIES = 100

POSITION = ("#path", "#row")
"""Columns that tell where a row is: its file, and its number there."""

Rows = Callable[[pl.LazyFrame], pl.LazyFrame]


class FileChange(BaseModel):
    """A change of a table, whose files are written and perhaps not committed yet.

    Attributes:
        number: its number among the changes of the table.
        removed: sizes of the files that it replaces, by path.
        added: the files in their place.
        gone: number of rows that are gone then; negative if rows are added.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    number: int
    removed: dict[PathBelow, int] = {}
    added: tuple[WrittenFile, ...] = ()
    gone: int


def rows_with_positions(table: Place, which: pl.Expr, columns: Collection[str]) -> pl.DataFrame:
    """Read the rows of a table that match a condition: their `POSITION`, and some columns.

    All files are asked at once: of most, the footer's statistics say that they have none of the rows.
    """
    delta = DeltaTable(str(table))
    empty = pl.DataFrame(_schema(delta).empty_table()).with_columns(**_NOWHERE)
    rows = (numbered_rows(delta, table, path).filter(which) for path in files_with(table, which))
    return pl.concat([frame.select(*POSITION, *columns) for frame in (empty.lazy(), *rows)]).collect()


def rows_at(table: Place, positions: pl.DataFrame) -> pl.DataFrame:
    """Read the rows at some positions, whole."""
    delta = DeltaTable(str(table))
    files = (numbered_rows(delta, table, path) for path in positions["#path"].unique())
    return pl.concat([rows.join(positions.lazy(), on=POSITION, how="semi") for rows in files]).collect()


def files_of(rows: pl.DataFrame) -> list[str]:
    """Return the files that rows with their `POSITION` are in."""
    return rows["#path"].unique().sort().to_list()


_NOWHERE = {"#path": pl.lit(None, pl.String), "#row": pl.lit(None, pl.UInt32)}


def numbered_rows(delta: DeltaTable, table: Place, path: str) -> pl.LazyFrame:
    """Scan a file of a table, with the columns `POSITION`. Columns that were added to the table after the file are NULL."""
    rows = scan_in_columns([table / path], _schema(delta))
    return rows.with_row_index("#row").with_columns(pl.lit(path).alias("#path"))


def prepare_change(table: Place, files: Collection[str], change: Rows) -> FileChange:
    """Write files of a table again, without a commit.

    Args:
        table: an existing Delta table.
        files: paths of files that have rows to change.
        change: gives what becomes of all rows of a file, which has the columns `POSITION` as well.

    Raises:
        OSError: the disk is full or fails.
    """
    delta, removed, added, gone = DeltaTable(str(table)), dict[str, int](), list[WrittenFile](), 0
    for path in files:
        before = numbered_rows(delta, table, path).collect()
        after = change(before.lazy()).drop(POSITION).collect()
        gone += before.height - after.height
        removed[path] = (table / path).stat().st_size
        if after.height:
            added.append(write_data_file(after, table, _schema(delta)))
    return FileChange(number=changes_of(table) + 1, removed=removed, added=tuple(added), gone=gone)


def prepare_addition(table: Place, rows: pl.DataFrame, schema: pa.Schema) -> FileChange:
    """Write rows that come from elsewhere, without a commit. For `erased_rows`, they are the opposite of erased rows."""
    file = write_data_file(rows, table, schema)
    return FileChange(number=changes_of(table) + 1, added=(file,), gone=-rows.height)


def changes_of(table: Place) -> int:
    """Return the number of changes that were ever committed to a table."""
    return DeltaTable(str(table)).transaction_version(_CHANGES) or 0


def commit_change(table: Place, change: FileChange) -> None:
    """Commit a prepared change, unless that was done before.

    Raises:
        Locked: files of it are gone, since maintenance or another process has replaced them; the table was not changed.
        OSError: the disk is full or fails; the table was not changed.
    """
    while not has_taken(delta := DeltaTable(str(table)), _CHANGES, change.number):
        if not (
            named_files(delta).keys() >= change.removed.keys() and all((table / f.path).exists() for f in change.added)
        ):
            raise Locked(f"{table}: maintenance or another process has replaced files that were to be changed")
        total = (delta.transaction_version(_ERASED) or 0) + change.gone
        # Without retries by Delta's library, which does not check whether another commit has removed the same files.
        properties = CommitProperties(
            app_transactions=[Transaction(_CHANGES, change.number), Transaction(_ERASED, total)], max_commit_retries=0
        )
        # If maintenance has committed, look at the table again.
        if commit_next(delta, table, _actions(change), properties):
            return


def files_with(table: Place, which: pl.Expr) -> list[str]:
    """Return the files of a table with rows that match a condition."""
    return list(rows_with(table, which)[1])


def rows_with(table: Place, which: pl.Expr) -> tuple[pl.LazyFrame, dict[str, int]]:
    """Scan the rows of a table that match a condition; returns them, and the sizes of the files that have some, by path.

    All files are asked: the footers of most say that they have none.
    """
    delta = DeltaTable(str(table))
    schema, sizes = _schema(delta), named_files(delta)
    counts = (scan_in_columns([table / path], schema).filter(which).select(pl.len()) for path in sizes)
    has_some = zip(sizes.items(), pl.collect_all(list(counts)), strict=True)
    sizes = {path: size for (path, size), count in has_some if count.item()}
    return scan_in_columns([table / path for path in sizes], schema).filter(which), sizes


def replace_rows(
    table: Place, which: pl.Expr, files: Sequence[WrittenFile], application: str, batch: int, note: str
) -> None:
    """Replace the rows that match a condition by those of written files, in one commit, unless the table has the batch.

    Files without such rows stay; others are written again without them.

    Args:
        table: an existing Delta table.
        which: the condition; false for NULL.
        files: files in its folder; also of rows that are staged, which are copied.
        application, batch: as of `append_files`.
        note: describes the change in the table's history.

    Raises:
        Locked: other processes commit to the table all the time; it was not changed.
        OSError: the disk is full or fails; the table was not changed.
    """
    for _ in range(_TRIES):
        if has_taken(delta := DeltaTable(str(table)), application, batch):
            return
        change = prepare_change(table, files_with(table, which), lambda rows: rows.filter(~which))
        fail_point("replace: rows written")
        schema = _schema(delta)
        new = [
            write_rows(scan_in_columns([table / file.path], schema), table, schema) if is_staged(file.path) else file
            for file in files
        ]
        transactions = [Transaction(application, batch), Transaction(of_files(application), digest_of(files))]
        properties = CommitProperties({"keyfold": note}, max_commit_retries=0, app_transactions=transactions)
        # If maintenance has committed, look at the table again.
        if commit_next(delta, table, _actions(change, new), properties):
            return
    raise Locked(f"{table}: not changed, since other processes commit to it all the time; run again")


def _actions(change: FileChange, more: Sequence[WrittenFile] = ()) -> list[AddAction | RemoveAction]:
    now = time.time_ns() // 1_000_000
    actions: list[AddAction | RemoveAction] = [add_action(file) for file in (*change.added, *more)]
    return [*actions, *(RemoveAction(path, True, now, size, {}) for path, size in change.removed.items())]


def erased_rows(table: Place) -> int:
    """Return the number of rows that were ever erased from a table, less those that were added to it from elsewhere."""
    return DeltaTable(str(table)).transaction_version(_ERASED) or 0


def forget(table: Place, uncommitted: Collection[str] = ()) -> int:
    """Delete all data files that are not part of a table's newest version, and return their number.

    Call it only while no process reads or writes the table: files that calls and batches wrote that were cut off are deleted too.

    Args:
        table: an existing Delta table.
        uncommitted: paths of files that are kept, since a commit record names them, although the table does not yet.
    """
    delta = DeltaTable(str(table))
    check_held()
    # No retention period on purpose: erased rows must leave the disk now. The files are only listed, and deleted here: a log that
    # somebody made may name files elsewhere, and VACUUM's two commits are not needed.
    gone = delta.vacuum(retention_hours=0, dry_run=True, enforce_retention_duration=False, full=True)
    gone = [path for path in map(unquote, gone) if path not in uncommitted and stays_below(path)]
    for path in gone:
        (table / path).unlink(missing_ok=True)
    return len(gone)


def _schema(delta: DeltaTable) -> pa.Schema:
    return pa.schema(delta.schema().to_arrow())  # type: ignore[arg-type]
