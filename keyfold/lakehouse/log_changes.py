"""List the data files of a Delta table, all or those added since a position, from its log. No data is read.

A commit that changes no data, such as compaction by OPTIMIZE, adds no files here. A commit that deletes or changes rows that were
there before is an error for readers of additions, since results from those rows cannot be taken back.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast
from urllib.parse import unquote

import polars as pl
from deltalake import DeltaTable

from keyfold.errors import Damaged, IncompatibleState
from keyfold.lakehouse.data_files import is_own_file
from keyfold.lakehouse.positions import Position, entries_since, position_at
from keyfold.lakehouse.presence import check_no_entry_is_empty
from keyfold.lakehouse.reading import parquet_file
from keyfold.storage.place import Place
from keyfold.times import from_iso, from_micros, micros

_CUT_OFF = 999
"""Microseconds by which another writer's log may be below the newest time: some truncate it to milliseconds."""


class RowsChangedError(Damaged):
    """A table that is read by its additions has changed or deleted rows."""


@dataclass(frozen=True)
class DataFile:
    """A data file of a table.

    Attributes:
        path: relative to the table's folder.
        rows: number of rows.
        bytes: its size.
        first, last: the oldest and the newest time, in microseconds since 1970; None without rows. In a file that another
            program wrote, `last` may be up to a millisecond after the newest time (`newest_time`).
        input: the input of the job that reads the file, if the job has several.
    """

    path: str
    rows: int
    bytes: int
    first: int | None
    last: int | None
    input: str = ""


@dataclass(frozen=True)
class Changes:
    """A table's files, all or those added since a position.

    Attributes:
        position: the table's position when it was read.
        files: data files in the order of their commits.
        arrived: the newest arrival in them, by the statistics in the log; None where that does not say it.
    """

    position: Position
    files: tuple[DataFile, ...]
    arrived: datetime | None = None


def snapshot(table: Place, time: str, arrival: str | None = None) -> Changes:
    """Return all files of a table's current version.

    Args:
        table: an existing Delta table.
        time: the column of times for `DataFile.first` and `last`.
        arrival: the column of arrivals for `Changes.arrived`.

    Raises:
        KeyfoldError: the table is partitioned or has deletion vectors (Keyfold writes neither); or a log entry is empty or
            missing.
    """
    delta = DeltaTable(str(table))
    check_plain(delta, table)
    check_no_entry_is_empty(table, delta.version())
    actions = delta.get_add_actions(flatten=True)
    columns = {name: actions[name].to_pylist() for name in actions.schema.names}
    count = len(columns["path"])
    firsts, lasts = (columns.get(f"{end}.{time}", [None] * count) for end in ("min", "max"))
    # The log has no order; the path breaks ties within a commit.
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
    arrivals = columns.get(f"max.{arrival}", [])
    return Changes(position_at(table, delta.version()), tuple(files), _newest(arrivals))


def changes_since(table: Place, position: Position, time: str, arrival: str | None = None) -> Changes:
    """Return the files added to a table after a position; see `snapshot`.

    Raises:
        RowsChangedError: a later commit has changed or deleted rows of files that were there at the position.
        OtherHistoryError, LogGoneError, KeyfoldError: as `positions.entries_since`.
    """
    files: dict[str, DataFile] = {}
    arrivals: list[datetime | None] = []
    reached = position
    for reached, actions in entries_since(table, position):
        for action in actions:
            if (
                (removed := action.get("remove"))
                and removed.get("dataChange", True)
                # What was added since the position has not been read.
                and files.pop(unquote(removed["path"]), None) is None
            ):
                raise RowsChangedError(f"version {reached.version} of {table} changed or deleted rows")
            added = action.get("add")
            if added and added.get("dataChange", True):
                # An `add` with a deletion vector replaces a file whose rows were read, without some of them.
                if added.get("deletionVector"):
                    raise RowsChangedError(f"version {reached.version} of {table} deleted rows (by a deletion vector)")
                stats: dict[str, Any] = json.loads(added.get("stats") or "{}")
                first, last = (_parsed(stats.get(end, {}).get(time)) for end in ("minValues", "maxValues"))
                path = unquote(added["path"])
                arrivals.append(_parsed(stats.get("maxValues", {}).get(arrival)))
                files[path] = _data_file(table, time, path, added["size"], stats.get("numRecords"), first, last)
    return Changes(reached, tuple(files.values()), _newest(arrivals))


def added_since(table: Place, position: Position) -> list[str]:
    """Return the paths of the files that were added to a table after a position, and whose rows were not changed since.

    Raises:
        OtherHistoryError, LogGoneError, KeyfoldError: as `positions.entries_since`.
    """
    paths: dict[str, None] = {}
    for _, actions in entries_since(table, position):
        for kind in ("remove", "add"):
            changed = (action[kind] for action in actions if kind in action and action[kind].get("dataChange", True))
            for path in (unquote(file["path"]) for file in changed):
                paths.pop(path, None) if kind == "remove" else paths.setdefault(path)
    return list(paths)


def next_change(table: Place, position: Position) -> int:
    """Return the first version after a position that added or removed rows; if there is none, the number of the next version.

    Raises:
        OtherHistoryError, LogGoneError, KeyfoldError: as `positions.entries_since`.
    """
    newest = position.version
    for reached, actions in entries_since(table, position):
        files = (action.get("add") or action.get("remove") for action in actions)
        if any(file.get("dataChange", True) for file in files if file):
            return reached.version
        newest = reached.version
    return newest + 1


def check_plain(delta: DeltaTable, table: Place) -> None:
    """Check that a table's rows are exactly those of its files.

    Raises:
        KeyfoldError: the table is partitioned or has deletion vectors (Keyfold writes neither).
    """
    if delta.metadata().partition_columns:
        raise IncompatibleState(
            f"{table} is partitioned, which Keyfold does not read; write it again without partitions"
        )
    features = delta.protocol().reader_features or []
    if "deletionVectors" in features and delta.metadata().configuration.get("delta.enableDeletionVectors") == "true":
        raise IncompatibleState(
            f"{table} has deletion vectors, which Keyfold does not read; PURGE the table and switch them off"
        )


def _data_file(
    table: Place, time: str, path: str, size: int, rows: int | None, first: datetime | None, last: datetime | None
) -> DataFile:
    # Statistics are optional in Delta's log; by default writers collect them for the first 32 columns only.
    if rows is None or (rows and (first is None or last is None)):
        rows, first, last = _from_footer(table / path, time)
    # Other writers may truncate times to milliseconds, the maximum too.
    end = 0 if is_own_file(path) else _CUT_OFF
    return DataFile(
        path, rows, size, None if first is None else micros(first), None if last is None else micros(last) + end
    )


def newest_time(table: Place, file: DataFile, time: str) -> datetime | None:
    """Return the newest time in a file; None without rows. A file that another program wrote is opened for it."""
    if is_own_file(file.path) or file.last is None:
        return None if file.last is None else from_micros(file.last)
    return _from_footer(table / file.path, time)[2]


def _from_footer(path: Place, time: str) -> tuple[int, datetime | None, datetime | None]:
    """Return the number of rows and the oldest and newest time, from the file itself."""
    with parquet_file(path) as file:
        rows = file.metadata.num_rows
        times = pl.Series(pl.from_arrow(file.read([time], use_threads=False).column(0)))
    return rows, cast(datetime | None, times.min()), cast(datetime | None, times.max())


def _newest(times: Iterable[datetime | None]) -> datetime | None:
    return max((time for time in times if time is not None), default=None)


def _parsed(text: str | None) -> datetime | None:
    return None if text is None else from_iso(text)
