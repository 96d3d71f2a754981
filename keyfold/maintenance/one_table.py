"""Maintain one table: compact its small files, then delete files that are no longer needed."""

import json
import math
import time as clock
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from keyfold.errors import Damaged, KeyfoldError, Locked
from keyfold.ingestion.event_rewrites import replacing_files, unapplied
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.data_files import STAGED, WrittenFile
from keyfold.lakehouse.fail_points import fail_point
from keyfold.maintenance.compaction import compact
from keyfold.maintenance.readers import Reader, readers
from keyfold.storage.place import Place, stays_below

RETENTION = timedelta(days=7)
"""The default retention period, that of Delta."""

_MARGIN = timedelta(hours=1)
"""A margin for differing clocks, and for a compaction that began before a version and was committed after it."""


@dataclass(frozen=True)
class Maintained:
    """The result of a table's maintenance.

    Attributes:
        files_before, files_after: number of files in the table's current version.
        deleted: number of deleted files.
        retention: the retention period that was applied.
        kept_for: the job for which files were kept longer than requested.
        not_deleted: why nothing was deleted, if that failed, or also not compacted.
    """

    files_before: int
    files_after: int
    deleted: int
    retention: timedelta
    kept_for: str | None = None
    not_deleted: str | None = None


@dataclass(frozen=True)
class MaintainedTable:
    """A table that is maintained.

    Attributes:
        name: its name in plans: `events.<stream>`, or that of a job's table.
        path: its folder.
        written: its files in each commit record that its writer's journal keeps, oldest first.
        time: the column of event times of an event table, by which its files are ordered; None for others.
        is_upsert: whether batches change its rows.
        stream: of a table of ingest, its stream.
    """

    name: str
    path: Place
    written: Sequence[Sequence[WrittenFile]] = ()
    time: str | None = None
    is_upsert: bool = False
    stream: str | None = None


def maintain(lakehouse: Lakehouse, table: MaintainedTable, retention: timedelta = RETENTION) -> Maintained:
    """Compact a table, then delete files that are no longer needed.

    Only appends may go on meanwhile: a concurrent upsert or this would fail. So hold the lock of a job with upsert tables. While events of
    a stream are changed, or such a call was cut off and is not finished, its tables stay as they are: the call has named their files.

    Args:
        lakehouse: the lakehouse of the jobs that read the table.
        table: the table.
        retention: how long replaced files are kept. They are kept longer while a job still has to read them.
    """
    files = len(DeltaTable(str(table.path)).file_uris())
    with ExitStack() as lock:
        if table.stream is not None:
            try:
                lock.enter_context(replacing_files(lakehouse, table.stream, timedelta(0)))
            except Locked as error:
                return Maintained(files, files, 0, retention, not_deleted=str(error))
            if waiting := unapplied(lakehouse, table.stream):
                finish = lakehouse.command("ingest", table.stream)
                left = (
                    f"events were {waiting[0].kind} by a call that was cut off; the next ingest finishes it: `{finish}`"
                )
                return Maintained(files, files, 0, retention, not_deleted=left)
        return _maintain(lakehouse, table, retention, files)


def _maintain(lakehouse: Lakehouse, table: MaintainedTable, retention: timedelta, files_before: int) -> Maintained:
    path, written = table.path, table.written
    compact(path, table.time)
    fail_point("maintenance: files joined")
    deleted, kept_for, obstacle = 0, None, None
    try:
        kept, kept_for, versions = _kept(lakehouse, table.name, path, retention)
        deleted = _delete(path, kept, versions, written)
        # Vacuum ignores folders that begin with _.
        deleted += _delete_staged(path, retention, _paths(written))
        retention = max(retention, kept)
    except (KeyfoldError, DeltaError) as error:
        obstacle = str(error)
    fail_point("maintenance: files deleted")
    return Maintained(
        files_before=files_before,
        files_after=len(DeltaTable(str(path)).file_uris()),
        deleted=deleted,
        retention=retention,
        kept_for=kept_for,
        not_deleted=obstacle,
    )


def _kept(
    lakehouse: Lakehouse, name: str, table: Place, retention: timedelta
) -> tuple[timedelta, str | None, list[int]]:
    """The retention period that readers need, the job that needs a longer one than requested, and versions to keep whole."""
    latest = DeltaTable(str(table)).version()
    behind = [reader for reader in readers(lakehouse, name, table) if reader.version <= latest]
    if not behind:
        return retention, None, []
    first = min(behind, key=lambda reader: reader.version)
    needed = datetime.now(UTC) - _committed_at(table, first) + _MARGIN
    whole = sorted({reader.version for reader in behind})
    return (needed, first.name, whole) if needed > retention else (retention, None, whole)


def _delete(table: Place, kept: timedelta, versions: list[int], written: Sequence[Sequence[WrittenFile]]) -> int:
    """Delete files that no kept version has, except those that may still be committed.

    These are the files of the newest commit record, and all newer files, which may be of a batch in progress. Vacuum checks the
    age of files too, but by the machine's clock, which may be wrong.
    """

    def found(*, full: bool) -> list[str]:
        return DeltaTable(str(table)).vacuum(
            retention_hours=math.ceil(kept / timedelta(hours=1)),
            dry_run=True,  # only list: the files are deleted below, and VACUUM's two commits are not needed
            full=full,
            keep_versions=versions or None,
            enforce_retention_duration=kept >= RETENTION,
        )

    named = _paths(written[-1:])
    # A full vacuum lists all files in the folder. Otherwise files whose removal the log no longer records would stay for ever.
    gone = [path for path in found(full=True) if path not in named]
    newest = [file.path for file in next((files for files in reversed(written) if files), ())]
    if gone and newest:
        # Files that the log says were removed may go at any age. Others must be older than the newest committed ones.
        replaced = set(found(full=False))
        since = min((changed_at for path in newest if (changed_at := _changed_at(table / path)) is not None), default=0)
        gone = [path for path in gone if path in replaced or (_changed_at(table / path) or since) < since]
    # A log that somebody made may name files elsewhere.
    gone = [path for path in gone if stays_below(path)]
    for path in gone:
        (table / path).unlink(missing_ok=True)
    if gone:
        table.sync_folder()
    return len(gone)


def _delete_staged(table: Place, retention: timedelta, named: set[str]) -> int:
    """Delete old staged rows that no commit record names."""
    oldest = clock.time() - retention.total_seconds()
    old = [
        path
        for path in (table / STAGED).glob("*.parquet")
        if f"{STAGED}/{path.name}" not in named and path.stat().st_mtime_ns < oldest * 1e9
    ]
    for path in old:
        path.unlink(missing_ok=True)
    return len(old)


def _changed_at(file: Place) -> int | None:
    try:
        return file.stat().st_mtime_ns
    except FileNotFoundError:
        return None


def _paths(written: Sequence[Sequence[WrittenFile]]) -> set[str]:
    return {file.path for files in written for file in files}


def _committed_at(table: Place, reader: Reader) -> datetime:
    log = table / "_delta_log" / f"{reader.version:020d}.json"
    try:
        for line in log.read_text(encoding="utf-8").splitlines():
            if info := json.loads(line).get("commitInfo"):
                # The in-commit timestamp never goes back; the clock's time may.
                milliseconds = info.get("inCommitTimestamp") or info["timestamp"]
                return datetime.fromtimestamp(milliseconds / 1000, UTC)
        return datetime.fromtimestamp(log.stat().st_mtime_ns / 1e9, UTC)
    except FileNotFoundError:
        raise Damaged(
            f"{reader.name} has read up to before version {reader.version}, whose log entry is gone: it cannot continue; "
            "run it with --full-refresh, or remove its folder if it is no longer used"
        ) from None


_PROPERTY = "delta.deletedFileRetentionDuration"


def remember_removals(table: Place, retention: timedelta) -> None:
    """Make a table's log name removed files for as long as maintenance keeps the files.

    No other process may write to the table meanwhile, since a concurrent append would fail.

    Args:
        table: an existing Delta table.
        retention: as for `maintain`.
    """
    delta = DeltaTable(str(table))
    wanted = _as_interval(retention)
    # A table without the property has Delta's default.
    if delta.metadata().configuration.get(_PROPERTY, _as_interval(RETENTION)) != wanted:
        delta.alter.set_table_properties({_PROPERTY: wanted})


def _as_interval(retention: timedelta) -> str:
    return f"interval {retention // timedelta(seconds=1)} seconds"
