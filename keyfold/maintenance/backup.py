"""Back up a lakehouse while runs go on, and restore a backup.

BACKUPS/content/<digest>         each content once, whichever backups have it (BLAKE2b, 256 bits)
BACKUPS/backups/<time>.json.gz   the files of a backup, written last

A stream's ingest, or a generation of a job, is cut at its newest commit record, as a crash right after that batch leaves it. Not
copied: `checksums.json`, since the first run on the restored copy records the checksums of the files there.
"""

import gzip
import hashlib
import json
import re
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from errno import ENOENT
from typing import Any, NamedTuple

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from keyfold.errors import Damaged, KeyfoldError, Misconfigured, NotFound
from keyfold.ingestion.ingest_settings import existing_ingest
from keyfold.keyed.generation.generations import all_generations, tables_of_no_job
from keyfold.keyed.generation.live_record import LIVE, live_generation_name
from keyfold.lakehouse import Lakehouse, exclusive, is_table
from keyfold.lakehouse.files import files_below, new_file, open_for_reading, sweep, sync_folder, write_once
from keyfold.lakehouse.presence import check_lakehouse_is_there, named_files
from keyfold.storage.place import FoundFile, Place, found_at, local_path, path_below, stays_below

_TRIES = 10
_COPIES_AT_ONCE = 8
_LIST = ".json.gz"

_Part = tuple[Place, dict[Place, str] | None]


@dataclass(frozen=True)
class Backup:
    """A backup that was made or restored.

    Attributes:
        name: its name for `restore`: the time when it began, in UTC.
        files, bytes: number and size of its files.
        new_bytes: size of what was written.
    """

    name: str
    files: int
    bytes: int
    new_bytes: int


class _File(NamedTuple):
    """A file of a backup. Its store's tag tells a change that leaves time and size as they were, since a store counts in seconds."""

    path: str
    bytes: int
    changed_at: int
    tag: str
    digest: str


def backups_in(folder: Place) -> list[str]:
    """Return the names of the backups in a folder or bucket, oldest first."""
    return sorted(path.name.removesuffix(_LIST) for path in (folder / "backups").glob(f"*{_LIST}"))


def back_up(lakehouse: Lakehouse, to: Place) -> Backup:
    """Back up a lakehouse. Runs, also continuous ones, may go on meanwhile; maintenance deletes nothing.

    Args:
        to: a folder or bucket for backups, outside of the lakehouse; created if missing. No backup there is ever removed.

    Raises:
        KeyfoldError: there is no lakehouse or a folder of it cannot be read, `to` is inside of it, another backup is running, or
            runs replace files faster than they can be copied; or the folder of a job is gone, whose tables are there: all others are in
            the backup.
        OSError: a disk is full or fails; no backup was made.
    """
    check_lakehouse_is_there(lakehouse)
    if path_below(to, lakehouse.home) is not None:
        raise Misconfigured(f"{to} is inside the lakehouse {lakehouse.home}: give a folder outside of it")
    name, content = f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%S-%fZ}", to / "content"
    with exclusive(to, "a backup"), exclusive(lakehouse.backup, "a backup"):
        sweep(content)
        there, earlier = {file.path.name for file in files_below(content)}, backups_in(to)
        last = _read(to, earlier[-1]) if earlier else []
        known = {file[:4]: file for file in last if file.digest in there}
        files, fault = _copy_all(lakehouse, content, known)
        for _ in range(_TRIES - 1):
            if fault:
                files, fault = _copy_all(lakehouse, content, known)
        if fault:
            raise KeyfoldError(
                f"{fault}, in each of {_TRIES} tries. If a file is missing for good, restore it; otherwise runs replace files "
                "faster than they are copied, or jobs are refreshed: back up when fewer runs are active"
            )
        content.mkdir(parents=True, exist_ok=True)
        sync_folder(content)
        write_once(to / "backups" / f"{name}{_LIST}", gzip.compress(json.dumps(files).encode(), mtime=0))
    new = {file.digest: file.bytes for file in files if file.digest not in there}
    if lost := tables_of_no_job(lakehouse):
        raise Damaged(
            f"backup {name} is made, but lacks {', '.join(map(str, lost))}: the folders of their jobs are gone; restore them from an "
            "earlier backup, or remove the tables if the jobs were removed on purpose"
        )
    return Backup(name, len(files), sum(file.bytes for file in files), sum(new.values()))


def restore(folder: Place, lakehouse: Lakehouse, name: str | None = None) -> Backup:
    """Restore a backup to an empty lakehouse directory, and verify the digest of each file.

    Args:
        folder: the folder or bucket of backups.
        lakehouse: the lakehouse to create, at the same path as the original or at another.
        name: name of the backup; None for the newest.

    Raises:
        KeyfoldError: there is no such backup, part of it is gone or damaged, or the lakehouse directory is not empty.
        OSError: a disk is full or fails; remove the written files, and restore again.
    """
    names = backups_in(folder)
    name = name or max(names, default="")
    if name not in names:
        raise NotFound(f"{folder} has no backup {name or 'yet'}; backups there: {', '.join(names) or 'none'}")
    # A hidden file is the lock of an earlier run.
    if any(not file.path.name.startswith(".") for file in files_below(lakehouse.home)):
        raise Misconfigured(f"{lakehouse.home} is not empty: restore to another directory, or move this one aside")
    files, content = _read(folder, name), folder / "content"
    there = {file.below for file in files_below(content)}

    def write(one: _File) -> None:
        # The list may be somebody else's: it must not name files elsewhere.
        kept, local = content / one.digest, local_path(content / one.digest)
        is_ours = one.digest in there and stays_below(one.path) and not (local and local.is_symlink())
        if not is_ours or _copy(kept, lakehouse.home / one.path)[1] != one.digest:
            raise Damaged(
                f"{kept}, the content of {one.path}, is damaged or gone, or it is a link or leads out of the folder, which Keyfold never "
                "writes; restore another backup"
            )

    with ThreadPoolExecutor(_COPIES_AT_ONCE) as copies:
        list(copies.map(write, files))
    size = sum(file.bytes for file in files)
    return Backup(name, len(files), size, size)


def _read(folder: Place, name: str) -> list[_File]:
    path = folder / "backups" / f"{name}{_LIST}"
    try:
        return [_File(*one) for one in json.loads(gzip.decompress(path.read_bytes()))]
    except (OSError, EOFError, ValueError, TypeError) as error:
        raise Damaged(f"{path} cannot be read ({error}); restore another backup") from error


def _copy(source: Place, to: Place, named: Callable[[str], str] | None = None) -> tuple[int, str]:
    """Copy a file, under the name that a function gives for its digest if there is one; returns size and digest."""
    digest, size = hashlib.blake2b(digest_size=32), 0
    with open_for_reading(source) as content, new_file(to, named and (lambda _: named(digest.hexdigest()))) as file:
        while some := content.read(4 << 20):
            digest.update(some)
            size += len(some)
            file.write(some)
    return size, digest.hexdigest()


def _copy_all(lakehouse: Lakehouse, content: Place, known: dict[tuple[Any, ...], _File]) -> tuple[list[_File], str]:
    """Copy what is not known yet; returns all files, and why they do not belong together, if they do not."""

    def copied(file: FoundFile) -> _File | None:
        path = path_below(file.path, lakehouse.home)
        # Hidden: locks, and files that are being written.
        if path is None or path.name.startswith("."):
            return None
        what = (path.as_posix(), file.bytes, file.changed_at, file.tag)
        if what not in known:
            # Under a temporary name that `sweep` removes if this process is killed.
            size, digest = _copy(file.path, content / f".aside-{uuid.uuid4().hex}", str)
            known[what] = _File(what[0], size, *what[2:], digest)
        return known[what]

    files, fault, parts = dict[str, _File](), "", _parts(lakehouse)
    for folder, tables in parts:
        try:
            # Before others are listed: with a newer clock, events that the restored job still has to read would be late.
            found = [copied(found_at(clock))] if (clock := folder / "journal" / "clock.json").exists() else []
            with ThreadPoolExecutor(_COPIES_AT_ONCE) as copies:
                found += copies.map(copied, list(files_below(folder) if tables is None else _files(folder, tables)))
            files |= {file.path: file for file in found if file}
        except (FileNotFoundError, DeltaError) as error:
            # The others are copied all the same, so that the next try has less to do.
            fault = f"{folder} could not be backed up: {error}"
    if (live := lakehouse.home / LIVE).exists() and (file := copied(found_at(live))):
        files[LIVE] = file
    if _parts(lakehouse) != parts:
        fault = fault or "jobs were refreshed or streams rebuilt meanwhile"
    return sorted(files.values()), fault


def _parts(lakehouse: Lakehouse) -> list[_Part]:
    """What is copied, in order: folders, with their tables and who writes these; None of those that are copied as they are.

    The younger generations come first: one that reads tables of another is the younger one, and all that it has read must be there.
    """
    home, parts = lakehouse.home, list[_Part]()
    for one in sorted(all_generations(lakehouse), key=lambda one: one.record["born_at"], reverse=True):
        is_live = live_generation_name(lakehouse, one.record["job"]) == one.name
        # The tables of a generation that was replaced are older versions of the live one's.
        names = [name for name in one.record["table_ids"] if is_live or one.is_aside(name)]
        parts.append((one.folder, {one.table(name): f"{one.identity}/{name}" for name in names}))
    for folder in sorted(home.glob("ingest/*")):
        birth = existing_ingest(lakehouse, folder.name)
        parts.append((folder, {at: f"{birth.identity}/{name}" for name, at in birth.tables.items()} if birth else {}))
    parts += [(folder, {folder: ""}) for folder in sorted(home.glob("monitoring/[!.]*"))]
    return [*parts, (home / "aside", None), (home / "landing", None)]


def _files(folder: Place, tables: dict[Place, str]) -> Iterator[FoundFile]:
    """The files of a part but its clock, cut at its newest commit record."""
    # The files that ingest knows before the journal, so that it has the batches after the ones that they cover.
    yield from list(files_below(folder / "files"))
    records = [
        file
        for file in files_below(folder / "journal")
        if re.fullmatch(r"\d{9}\.(plan|done)\.json|history.*", file.below)
    ]
    yield from records
    last = max((int(file.below[:9]) for file in records if "done" in file.below), default=-1)
    for table, application in tables.items():
        yield from _table(table, application, last)
    for file in files_below(folder) if folder not in tables else ():
        top, number = file.below.partition("/")[0], file.path.name.partition("-")[0]
        # Parts and manifests of a later batch would stay for ever: a run removes those of its own batch alone.
        if top not in ("files", "journal", "tables") and (top != "state" or int(number) <= last):
            yield file


def _table(table: Place, application: str, last: int) -> Iterator[FoundFile]:
    """The files of a Delta table up to the newest version without a later batch of an application than the last one."""
    if not is_table(table):
        return
    delta = DeltaTable(str(table))
    while (taken := delta.transaction_version(application) if application else None) is not None and taken > last:
        delta.load_as_version(delta.version() - 1)
    log, data = "_delta_log/", dict[str, FoundFile]()
    for file in files_below(table):
        if not file.below.startswith(log):
            data[file.below] = file
        elif (version := re.match(r"\d{20}\.", file.path.name)) and int(version[0][:-1]) <= delta.version():
            yield file
    if gone := named_files(delta).keys() - data:
        raise FileNotFoundError(ENOENT, "was removed while its table was listed", str(table / min(gone)))
    yield from data.values()
