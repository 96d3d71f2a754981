"""Care of Delta tables, without a JVM: small files are joined, and files that nobody needs any more are deleted.

Joining (`OPTIMIZE`) is safe at any time for who reads: its commits say that they change no data, so streaming readers
pass over them, and the files it replaces stay. Deleting (`VACUUM`) is not: a streaming reader goes through a table
version by version and opens the files that each of them added, long after later versions have replaced those. So

- files are kept for the retention at least, and back to the oldest version that a keyed job has yet to read;
- a job that has not read anything begins with the table as it is then, and needs nothing older;
- where it cannot be told how far a job has come, nothing of the table is deleted.

Of a job's generations the live one counts, and any newer one that is being filled. A branch runs once, within the
retention. Readers outside of Keyfold are not known here: give them a retention that is long enough.
"""

import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from deltalake import DeltaTable, PostCommitHookProperties
from deltalake.exceptions import DeltaError

from spark_jobs.errors import KeyfoldError
from spark_jobs.keyed.generations import Generation, live_generation_name
from spark_jobs.lakehouse import Lakehouse, read_json

RETENTION = timedelta(days=7)
"""Delta's own default."""

_MARGIN = timedelta(hours=1)
"""For clocks that differ, and for an OPTIMIZE that began before a version and was committed after it."""

# Spark writes the checkpoints of these tables, and cleans their logs up, by the tables' own settings.
_NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


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


@dataclass(frozen=True)
class Reader:
    """A generation of a job that streams from a table, and the first version that it may yet have to open files of."""

    name: str
    version: int


def maintain(lakehouse: Lakehouse, table: Path, retention: timedelta = RETENTION) -> Maintained:
    """Join a table's small files, then delete those that nobody needs any more.

    Only appends may go on meanwhile: of an upsert and this, one would fail. Hold the job's lock.
    """
    before = DeltaTable(str(table))
    files_before, bytes_before = len(before.file_uris()), _bytes_on_disk(table)
    # One task at a time: a task holds a joined file's rows in memory.
    before.optimize.compact(max_concurrent_tasks=1, post_commithook_properties=_NO_HOOKS)
    deleted, kept_for, obstacle = 0, None, None
    try:
        kept, kept_for, versions = _kept(lakehouse, table, retention)
        deleted = _vacuum(table, kept, versions)
        retention = max(retention, kept)
    except (KeyfoldError, DeltaError) as error:
        obstacle = str(error)
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


def readers(lakehouse: Lakehouse, table: Path) -> Iterator[Reader]:
    """The generations that stream from a table and have begun to.

    Raises:
        KeyfoldError: a checkpoint was written in a form that this Keyfold does not know.
    """
    identity = str(DeltaTable(str(table)).metadata().id)
    for folder in sorted(lakehouse.home.glob("jobs/*/generation-*")):
        job, live = folder.parent.name, live_generation_name(lakehouse, folder.parent.name)
        if (live is not None and folder.name < live) or not (folder / "generation.json").exists():
            continue
        version = _first_version_needed(Generation(folder, read_json(folder / "generation.json")), identity)
        if version is not None:
            yield Reader(f"job {job}, {folder.name}", version)


def _kept(lakehouse: Lakehouse, table: Path, retention: timedelta) -> tuple[timedelta, str | None, list[int]]:
    """How far back files are needed, for whom where that is longer than asked for, and versions to keep whole."""
    latest = DeltaTable(str(table)).version()
    behind = sorted((reader for reader in readers(lakehouse, table) if reader.version <= latest), key=_version)
    if not behind:
        return retention, None, []
    needed = datetime.now(UTC) - _committed_at(table, behind[0]) + _MARGIN
    whole = sorted({reader.version for reader in behind})
    return (needed, behind[0].name, whole) if needed > retention else (retention, None, whole)


def _vacuum(table: Path, kept: timedelta, versions: list[int]) -> int:
    hours = math.ceil(kept / timedelta(hours=1))
    settings = {
        "retention_hours": hours,
        "full": True,  # else files whose removal an old checkpoint has forgotten would stay for ever
        "keep_versions": versions or None,
        "enforce_retention_duration": kept >= RETENTION,
    }
    found = DeltaTable(str(table)).vacuum(dry_run=True, **settings)
    if found:  # else a night's nothing would be two commits
        DeltaTable(str(table)).vacuum(dry_run=False, post_commithook_properties=_NO_HOOKS, **settings)
    return len(found)


def _first_version_needed(generation: Generation, table_id: str) -> int | None:
    """None where nothing older than the table as it is now will be read.

    A micro-batch that was planned and not finished is replayed: what counts is where it began.
    """
    offsets, commits = (generation.checkpoint / log for log in ("offsets", "commits"))
    planned, finished = _batches(offsets), _batches(commits)
    if not planned:
        return None
    batch = max(finished, default=min(planned)) if max(planned) > max(finished, default=-1) else max(planned)
    try:
        _, _, events, *_ = (offsets / str(batch)).read_text(encoding="utf-8").splitlines()
        if events == "-":
            return None
        offset = json.loads(events)
        if offset["reservoirId"] != table_id:
            return None
        version, is_snapshot = int(offset["reservoirVersion"]), bool(offset["isStartingVersion"])
    except (OSError, ValueError, KeyError, TypeError):
        raise KeyfoldError(
            f"how far {generation.folder} has read the table cannot be told: its offset log {offsets / str(batch)} is "
            "missing or of another form"
        ) from None
    # The first batch of all read the whole of a version, and that batch is still to be replayed.
    return version - 1 if not finished and not is_snapshot else version


def _committed_at(table: Path, reader: Reader) -> datetime:
    log = table / "_delta_log" / f"{reader.version:020d}.json"
    try:
        for line in log.read_text(encoding="utf-8").splitlines():
            if info := json.loads(line).get("commitInfo"):
                milliseconds = info.get("inCommitTimestamp") or info["timestamp"]
                return datetime.fromtimestamp(milliseconds / 1000, UTC)
        return datetime.fromtimestamp(log.stat().st_mtime, UTC)
    except FileNotFoundError:
        raise KeyfoldError(
            f"{reader.name} has read to before version {reader.version}, whose log entry is gone: it cannot go on; "
            "run it with --full-refresh, or remove its folder if it is no more"
        ) from None


def _batches(log: Path) -> list[int]:
    return [int(path.name) for path in log.glob("[0-9]*") if path.name.isdigit()]


def _version(reader: Reader) -> int:
    return reader.version


def _bytes_on_disk(table: Path) -> int:
    total = 0
    for parent, folders, names in os.walk(table):
        folders[:] = [name for name in folders if not name.startswith("_")]
        total += sum(os.path.getsize(os.path.join(parent, name)) for name in names if not name.startswith("."))
    return total
