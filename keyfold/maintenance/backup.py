"""Back up a lakehouse while runs go on, and restore a backup.

BACKUPS/content/<digest>         each content once, whichever backups have it (BLAKE2b, 256 bits)
BACKUPS/backups/<time>.json.gz   the files of a backup, written last

`backup_parts` says which files these are. Only regular files are copied, and no link is followed: whatever else is in a folder is named.
"""

import gzip
import hashlib
import json
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from deltalake.exceptions import DeltaError

from keyfold.errors import Damaged, KeyfoldError, Misconfigured, NotFound, in_few_lines
from keyfold.ingestion.event_rewrites import changes_of_events
from keyfold.keyed.generation.live_record import LIVE
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.presence import check_lakehouse_is_there
from keyfold.maintenance.backup_parts import files_of, parts_of
from keyfold.maintenance.checking import check
from keyfold.storage.entries import ListedFile, NoRegularFileError, OtherEntry
from keyfold.storage.place import Place, path_below, stays_below

_TRIES = 10
_COPIES_AT_ONCE = 8
_LIST = ".json.gz"


@dataclass(frozen=True)
class Backup:
    """A backup that was made or restored.

    Attributes:
        name: its name for `restore`: the time when it began, in UTC.
        files, bytes: number and size of its files.
        new_bytes: size of what was written.
        left_out: what is in the lakehouse directory's folders and is no file: links, pipes, sockets and devices; and files that were
            being written.
    """

    name: str
    files: int
    bytes: int
    new_bytes: int
    left_out: tuple[str, ...] = ()


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
        KeyfoldError: there is no lakehouse or a folder of it cannot be read, a record that says what belongs to it is lost, damaged or
            of another version, a table's log or data file is lost, `to` is inside of the lakehouse, another backup is running, or runs
            replace files faster than they can be copied: no backup was made. Or the lakehouse is damaged in another way, or landing
            files cannot be read: the backup has all that could be copied, as it is.
        OSError: a disk is full or fails; no backup was made.
    """
    check_lakehouse_is_there(lakehouse)
    if path_below(to, lakehouse.home) is not None:
        raise Misconfigured(f"{to} is inside the lakehouse {lakehouse.home}: give a folder outside of it")
    name, content = f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%S-%fZ}", to / "content"
    with to.exclusive("a backup"), lakehouse.backup.exclusive("a backup"):
        content.sweep()
        there, earlier = {file.path.name for file in content.files_below()}, backups_in(to)
        last = _read(to, earlier[-1]) if earlier else []
        known = {file[:4]: file for file in last if file.digest in there}
        parts_of(lakehouse)  # raises before everything is looked at
        # A damaged lakehouse is copied as it is, since all of it that is well must be in a backup; but not without a word.
        damage = [
            f"{finding.path} {finding.fault}; {finding.remedy}" for finding in check(lakehouse) if finding.is_damage
        ]
        copy = _Copy(lakehouse, content, known)
        for _ in range(_TRIES - 1):
            if copy.fault:
                copy = _Copy(lakehouse, content, known)
        if copy.fault:
            raise KeyfoldError(
                f"{copy.fault}, in each of {_TRIES} tries. If a file is missing for good, restore it; otherwise runs replace files "
                "faster than they are copied, or jobs are refreshed: back up when fewer runs are active"
            )
        files = sorted(copy.files.values())
        content.mkdir(parents=True, exist_ok=True)
        content.sync_folder()
        (to / "backups" / f"{name}{_LIST}").write_once(gzip.compress(json.dumps(files).encode(), mtime=0))
    new = {file.digest: file.bytes for file in files if file.digest not in there}
    if lost := [*damage, *copy.unreadable]:
        raise Damaged(
            f"backup {name} is made, but lacks what is damaged or cannot be read: {'; '.join(in_few_lines(lost, 'files'))}"
        )
    left_out = tuple(in_few_lines(copy.left_out, "entries"))
    return Backup(name, len(files), sum(file.bytes for file in files), sum(new.values()), left_out)


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
    if any(not file.path.name.startswith(".") for file in lakehouse.home.files_below()):
        raise Misconfigured(f"{lakehouse.home} is not empty: restore to another directory, or move this one aside")
    files, content = _read(folder, name), folder / "content"
    there = {file.below: file for file in content.files_below()}

    def write(one: _File) -> None:
        # The list may be somebody else's: it must not name files elsewhere.
        # As files alone are listed, a link is none of them.
        is_ours = one.digest in there and stays_below(one.path)
        if not is_ours or _copy(there[one.digest], lakehouse.home / one.path)[1] != one.digest:
            raise Damaged(
                f"{content / one.digest}, the content of {one.path}, is damaged or gone, or it is a link or leads out of the folder, which Keyfold never "
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


def _copy(file: ListedFile, to: Place, named: Callable[[str], str] | None = None) -> tuple[int, str]:
    """Copy a file, under the name that a function gives for its digest if there is one; returns size and digest."""
    digest, size = hashlib.blake2b(digest_size=32), 0
    with file.open() as content, to.new_file(named and (lambda _: named(digest.hexdigest()))) as copy:
        while some := content.read(4 << 20):
            digest.update(some)
            size += len(some)
            copy.write(some)
    return size, digest.hexdigest()


@dataclass
class _Copy:
    """A copy of what is not known yet.

    Attributes:
        lakehouse: what is copied.
        content: where to.
        known: the files that are there, by path, size, time and tag; those that are copied are added.
        files: all files, by path.
        fault: why they do not belong together; empty if they do.
        left_out: what is no file, or is being written.
        unreadable: what this user may not read.
    """

    lakehouse: Lakehouse
    content: Place
    known: dict[tuple[Any, ...], _File]
    files: dict[str, _File] = field(default_factory=dict)
    fault: str = ""
    left_out: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        parts, changes = parts_of(self.lakehouse), changes_of_events(self.lakehouse)
        for part in parts:
            try:
                # Before others are listed: with a newer clock, events that the restored job still has to read would be late.
                copied = [self._copied(path.listed()) for path in part.first if path.exists()]
                with ThreadPoolExecutor(_COPIES_AT_ONCE) as copies:
                    copied += copies.map(self._copied, list(files_of(part, self._other)))
                self.files |= {file.path: file for file in copied if file}
            except (FileNotFoundError, DeltaError, Damaged) as error:
                # The others are copied all the same, so that the next try has less to do.
                self.fault = f"{part.folder} could not be backed up: {error}"
        if (live := self.lakehouse.home / LIVE).exists() and (file := self._copied(live.listed())):
            self.files[LIVE] = file
        if parts_of(self.lakehouse) != parts:
            self.fault = self.fault or "jobs were refreshed or streams rebuilt meanwhile"
        # Tables are copied one after another: an event that was moved meanwhile could be in none of the copies.
        if changes_of_events(self.lakehouse) != changes:
            self.fault = self.fault or "events were changed meanwhile"

    def _copied(self, file: ListedFile) -> _File | None:
        path = path_below(file.path, self.lakehouse.home)
        # Hidden: locks, and files that are being written.
        if path is None or path.name.startswith("."):
            return None
        version = (path.as_posix(), file.size, file.changed_at, file.tag)
        if version not in self.known:
            try:
                # Under a temporary name that `sweep` removes if this process is killed.
                size, digest = _copy(file, self.content / f".aside-{uuid.uuid4().hex}", str)
            except NoRegularFileError as error:
                self.left_out.append(f"{path}: {error.strerror}")
                return None
            except PermissionError as error:
                if error.filename != str(file.path):
                    raise  # of the backup
                self.unreadable.append(f"{path}: {error.strerror}")
                return None
            if size != file.size:
                self.left_out.append(f"{path}: is being written; a later backup has it")
                return None
            self.known[version] = _File(version[0], size, *version[2:], digest)
        return self.known[version]

    def _other(self, entry: OtherEntry) -> None:
        path = path_below(entry.path, self.lakehouse.home)
        if not entry.path.name.startswith("."):
            (self.unreadable if entry.may_hold_files else self.left_out).append(f"{path}: {entry.what}")
