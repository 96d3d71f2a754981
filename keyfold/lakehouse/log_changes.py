"""What a Delta table holds and what has come to it, file by file, from its log: no data is read.

A commit that changes no data (OPTIMIZE joins files so) adds nothing that is new. One that takes rows away or changes
them is told to whoever reads a table by what is added to it: what those rows had led to cannot be taken back.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast
from urllib.parse import unquote

import polars as pl
from deltalake import DeltaTable

from keyfold.errors import Damaged, IncompatibleState
from keyfold.lakehouse.data_files import is_own_file
from keyfold.lakehouse.empty_entries import check_no_entry_is_empty
from keyfold.lakehouse.parquet import parquet_file
from keyfold.lakehouse.positions import Position, entries_since, position_at
from keyfold.storage.place import Place
from keyfold.times import from_iso, from_micros, micros

ERASED = "keyfold.erased"
"""Of a commit that erased rows for good (`erasing`), where its log entry says which file stands for which: as JSON."""


_CUT_OFF = 999
"""Microseconds that the log of another writer may leave out."""


class RowsChangedError(Damaged):
    """Rows of a table that is read by its additions were changed or deleted."""


@dataclass(frozen=True)
class DataFile:
    """A data file of a table.

    Attributes:
        path: below the table's folder.
        rows: how many it holds.
        bytes: its size.
        first, last: the span of its times, in microseconds since 1970, which may end less than a millisecond after its
            newest event where another program wrote it (`newest_time`); None of no rows.
        input: of a job that reads several tables, as which of its inputs the file is read.
    """

    path: str
    rows: int
    bytes: int
    first: int | None
    last: int | None
    input: str = ""


@dataclass(frozen=True)
class Changes:
    """A table's files, all or those since a position.

    Attributes:
        position: in the table, up to which this is.
        files: data files, in the order in which they were added.
    """

    position: Position
    files: tuple[DataFile, ...]


def snapshot(table: Place, time: str) -> Changes:
    """Every file that a table consists of now.

    Args:
        table: an existing Delta table.
        time: its column of times, by which files say their span.

    Raises:
        KeyfoldError: the table is partitioned or has deletion vectors, which Keyfold's own never are; or an entry of its log
            is empty or missing.
    """
    delta = DeltaTable(str(table))
    check_plain(delta, table)
    check_no_entry_is_empty(table, delta.version())
    actions = delta.get_add_actions(flatten=True)
    columns = {name: actions[name].to_pylist() for name in actions.schema.names}
    count = len(columns["path"])
    firsts, lasts = (columns.get(f"{end}.{time}", [None] * count) for end in ("min", "max"))
    # The log gives them in no order; the path decides where several came with one commit.
    order = sorted(range(count), key=lambda at: (columns["modification_time"][at], columns["path"][at]))
    files = [
        _data_file(
            table,
            time,
            unquote(columns["path"][at]),
            columns["size_bytes"][at],
            columns["num_records"][at],
            firsts[at],
            lasts[at],
        )
        for at in order
    ]
    return Changes(position_at(table, delta.version()), tuple(files))


def changes_since(table: Place, position: Position, time: str) -> Changes:
    """The files that came to a table after a position; see `snapshot`.

    Raises:
        RowsChangedError: a later commit changed or deleted rows.
        OtherHistoryError, LogGoneError, KeyfoldError: as `positions.entries_since`.
    """
    files: list[DataFile] = []
    reached = position
    for reached, actions in entries_since(table, position):
        erased = _erased(actions)
        if erased is not None:
            # What is erased is gone from files that are yet to be read, and no news where they have been read.
            sizes = {unquote(one["add"]["path"]): one["add"]["size"] for one in actions if "add" in one}
            files = [kept for file in files if (kept := _without_erased(table, time, file, erased, sizes)) is not None]
            continue
        for action in actions:
            if (removed := action.get("remove")) and removed.get("dataChange", True):
                raise RowsChangedError(f"version {reached.version} of {table} changed or deleted rows")
            added = action.get("add")
            if added and added.get("dataChange", True):
                if added.get("deletionVector"):
                    raise RowsChangedError(f"version {reached.version} of {table} deleted rows (by a deletion vector)")
                stats: dict[str, Any] = json.loads(added.get("stats") or "{}")
                first, last = (_parsed(stats.get(end, {}).get(time)) for end in ("minValues", "maxValues"))
                files.append(
                    _data_file(table, time, unquote(added["path"]), added["size"], stats.get("numRecords"), first, last)
                )
    return Changes(reached, tuple(files))


def _erased(actions: list[dict[str, Any]]) -> dict[str, str | None] | None:
    """Of an erasure, which file stands for which now (none, where nothing was left); None of any other commit."""
    told = next((one["commitInfo"].get(ERASED) for one in actions if "commitInfo" in one), None)
    return None if told is None else json.loads(told)


def _without_erased(
    table: Place, time: str, file: DataFile, erased: dict[str, str | None], sizes: dict[str, int]
) -> DataFile | None:
    if file.path not in erased:
        return file
    path = erased[file.path]
    return None if path is None else _data_file(table, time, path, sizes[path], None, None, None)


def next_change(table: Place, position: Position) -> int:
    """The first version after a position that came with rows or took some away; the one to come where none did.

    Raises:
        OtherHistoryError, LogGoneError, KeyfoldError: as `positions.entries_since`.
    """
    newest = position.version
    for one, actions in entries_since(table, position):
        files = (action.get("add") or action.get("remove") for action in actions)
        if any(file.get("dataChange", True) for file in files if file):
            return one.version
        newest = one.version
    return newest + 1


def check_plain(delta: DeltaTable, table: Place) -> None:
    """See that a table's files hold just its rows.

    Raises:
        KeyfoldError: it is partitioned or has deletion vectors, which Keyfold's own never are.
    """
    if delta.metadata().partition_columns:
        raise IncompatibleState(
            f"{table} is partitioned, which Keyfold does not read; write it again without partitions"
        )
    features = delta.protocol().reader_features or []
    if "deletionVectors" in features and delta.metadata().configuration.get("delta.enableDeletionVectors") == "true":
        raise IncompatibleState(f"{table} has deletion vectors, which Keyfold does not read; PURGE and switch them off")


def _data_file(
    table: Place, time: str, path: str, size: int, rows: int | None, first: datetime | None, last: datetime | None
) -> DataFile:
    # Writers need not put statistics into the log; Delta's own stop behind the 32nd column.
    if rows is None or (rows and (first is None or last is None)):
        rows, first, last = _from_footer(table / path, time)
    # Other writers may cut off what is below a millisecond, of the last time too.
    end = 0 if is_own_file(path) else _CUT_OFF
    return DataFile(
        path, rows, size, None if first is None else micros(first), None if last is None else micros(last) + end
    )


def newest_time(table: Place, file: DataFile, time: str) -> datetime | None:
    """The newest time of a file's rows; None of no rows. A file that another program wrote is looked into."""
    if is_own_file(file.path) or file.last is None:
        return None if file.last is None else from_micros(file.last)
    return _from_footer(table / file.path, time)[2]


def _from_footer(path: Place, time: str) -> tuple[int, datetime | None, datetime | None]:
    """What the log does not say stands in the file itself."""
    with parquet_file(path) as file:
        rows = file.metadata.num_rows
        times = pl.Series(pl.from_arrow(file.read([time], use_threads=False).column(0)))
    return rows, cast(datetime | None, times.min()), cast(datetime | None, times.max())


def _parsed(text: str | None) -> datetime | None:
    return None if text is None else from_iso(text)
