"""One table's care: its small files are joined, then those that nobody needs are deleted."""

import json
import math
import time as clock
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from keyfold.errors import Damaged, KeyfoldError
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.data_files import STAGED, WrittenFile
from keyfold.lakehouse.fail_points import reached
from keyfold.lakehouse.files import files_below, sync_folder
from keyfold.maintenance.joining import join_small_files
from keyfold.maintenance.readers import Reader, readers
from keyfold.storage.place import Place, path_below

RETENTION = timedelta(days=7)
"""Delta's own default."""

_MARGIN = timedelta(hours=1)
"""For clocks that differ, and for a join that began before a version and was committed after it."""


@dataclass(frozen=True)
class Maintained:
    """What was done to a table.

    Attributes:
        files_before, files_after: that the table consists of.
        bytes_before, bytes_after: of all data files on disk, those of older versions too.
        deleted: files that were deleted.
        retention: how far back files were kept.
        kept_for: the job for which they were kept longer than was asked for.
        not_deleted: why nothing was deleted, where something stood in the way.
    """

    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    deleted: int
    retention: timedelta
    kept_for: str | None = None
    not_deleted: str | None = None


def maintain(
    lakehouse: Lakehouse,
    name: str,
    table: Place,
    retention: timedelta = RETENTION,
    *,
    time: str | None = None,
    written: Sequence[Sequence[WrittenFile]] = (),
) -> Maintained:
    """Join a table's small files, then delete those that nobody needs any more.

    Only appends may go on meanwhile: of an upsert and this, one would fail. Hold the job's lock.

    Args:
        lakehouse: where the jobs are that read the table.
        name: of the table in plans, `events.<stream>` or a job's.
        table: its folder.
        retention: files that it has replaced are kept for so long, and longer while a job has yet to read them.
        time: of an event table, the column of times by which its files are put in order.
        written: its files by the commit records that are kept of whoever writes it, oldest first.
    """
    before = DeltaTable(str(table))
    files_before, bytes_before = len(before.file_uris()), _bytes_on_disk(table)
    join_small_files(table, time)
    reached("maintenance: files joined")
    deleted, kept_for, obstacle = 0, None, None
    try:
        kept, kept_for, versions = _kept(lakehouse, name, table, retention)
        deleted = _delete(table, kept, versions, written)
        # A vacuum passes over folders that begin with _.
        deleted += _delete_staged(table, retention, _paths(written))
        retention = max(retention, kept)
    except (KeyfoldError, DeltaError) as error:
        obstacle = str(error)
    reached("maintenance: files deleted")
    return Maintained(
        files_before=files_before,
        files_after=len(DeltaTable(str(table)).file_uris()),
        bytes_before=bytes_before,
        bytes_after=_bytes_on_disk(table),
        deleted=deleted,
        retention=retention,
        kept_for=kept_for,
        not_deleted=obstacle,
    )


def _kept(
    lakehouse: Lakehouse, name: str, table: Place, retention: timedelta
) -> tuple[timedelta, str | None, list[int]]:
    """How far back files are needed, for whom where that is longer than asked for, and versions to keep whole."""
    latest = DeltaTable(str(table)).version()
    behind = [reader for reader in readers(lakehouse, name, table) if reader.version <= latest]
    if not behind:
        return retention, None, []
    first = min(behind, key=lambda reader: reader.version)
    needed = datetime.now(UTC) - _committed_at(table, first) + _MARGIN
    whole = sorted({reader.version for reader in behind})
    return (needed, first.name, whole) if needed > retention else (retention, None, whole)


def _delete(table: Place, kept: timedelta, versions: list[int], written: Sequence[Sequence[WrittenFile]]) -> int:
    """Delete what no version that is kept consists of, unless the table may yet take it.

    That is what the newest commit record names, and what is newer: a batch may be at work that is not done. The machine's
    clock tells as well how old a file is, but a clock may be wrong.
    """

    def found(*, full: bool) -> list[str]:
        return DeltaTable(str(table)).vacuum(
            retention_hours=math.ceil(kept / timedelta(hours=1)),
            dry_run=True,  # that is to say: say which; the two commits of a VACUUM are of use to nobody
            full=full,
            keep_versions=versions or None,
            enforce_retention_duration=kept >= RETENTION,
        )

    named = _paths(written[-1:])
    # All of them: files whose removal an old checkpoint has forgotten would stay for ever else.
    gone = [path for path in found(full=True) if path not in named]
    newest = [file.path for file in next((files for files in reversed(written) if files), ())]
    if gone and newest:
        replaced = set(found(full=False))
        since = min((changed_at for path in newest if (changed_at := _changed_at(table / path)) is not None), default=0)
        gone = [path for path in gone if path in replaced or (_changed_at(table / path) or since) < since]
    for path in gone:
        (table / path).unlink(missing_ok=True)
    if gone:
        sync_folder(table)
    return len(gone)


def _delete_staged(table: Place, retention: timedelta, named: set[str]) -> int:
    """Delete rows that waited to be merged and that no commit record knows (any more)."""
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
                # Where a table has it, it never goes back; the clock's own time may.
                milliseconds = info.get("inCommitTimestamp") or info["timestamp"]
                return datetime.fromtimestamp(milliseconds / 1000, UTC)
        return datetime.fromtimestamp(log.stat().st_mtime_ns / 1e9, UTC)
    except FileNotFoundError:
        raise Damaged(
            f"{reader.name} has read to before version {reader.version}, whose log entry is gone: it cannot go on; "
            "run it with --full-refresh, or remove its folder if it is no more"
        ) from None


def _bytes_on_disk(table: Place) -> int:
    found = ((file, path_below(file.path, table)) for file in files_below(table))
    return sum(
        file.bytes
        for file, below in found
        if below is not None and below.parts[0] != "_delta_log" and not below.name.startswith(".")
    )
