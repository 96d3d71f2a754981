"""Back up a lakehouse while runs go on, and restore a backup."""

import io
import re
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime

from keyfold.errors import KeyfoldError, Misconfigured, NotFound
from keyfold.journal.checksums import RECORD as CHECKSUMS
from keyfold.journal.checksums import without_tags
from keyfold.lakehouse import Lakehouse, exclusive
from keyfold.lakehouse.files import FoundFile, files_below, new_file, open_for_reading
from keyfold.lakehouse.presence import check_lakehouse_is_there
from keyfold.maintenance.backup.cut import MovedOnError, Part, cut_part, live_pointers, part_names
from keyfold.maintenance.backup.store import BackedUpFile, BackupStore, FileList, digest_of
from keyfold.storage.place import Place, path_below

_TRIES = 10
_COPIES_AT_ONCE = 8


@dataclass(frozen=True)
class Backup:
    """A new backup.

    Attributes:
        name: its name for `restore`: the time when it began, in UTC.
        files, bytes: number and size of its files.
        new_contents, new_bytes: number and size of the contents that no earlier backup had.
        seconds: duration.
    """

    name: str
    files: int
    bytes: int
    new_contents: int
    new_bytes: int
    seconds: float


@dataclass(frozen=True)
class Restored:
    """A restored lakehouse.

    Attributes:
        name: name of the backup.
        home: the new lakehouse directory.
        files, bytes: number and size of the files written.
        seconds: duration.
    """

    name: str
    home: str
    files: int
    bytes: int
    seconds: float


def back_up(lakehouse: Lakehouse, to: Place, *, keep: int | None = None) -> Backup:
    """Back up a lakehouse. Runs, also continuous ones, and maintenance may go on meanwhile.

    Args:
        to: a folder or bucket for backups, outside of the lakehouse; created if missing.
        keep: number of backups to keep there; None keeps all.

    Raises:
        KeyfoldError: there is no lakehouse or a folder of it cannot be read, `to` is inside of it, another backup to the same
            folder is running, or runs replace files faster than they can be copied. With `keep`: the lakehouse lacks a job or
            a table that the last backup has; no backup is made or removed.
        OSError: a disk is full or fails; no backup was made.
    """
    check_lakehouse_is_there(lakehouse)
    if path_below(to, lakehouse.home) is not None:
        raise Misconfigured(f"{to} is inside the lakehouse {lakehouse.home}: give a folder outside of it")
    if keep is not None and keep < 1:
        raise Misconfigured(f"keep is {keep}: give 1 or more, since the new backup is kept")
    began = time.monotonic()
    with exclusive(to, "a backup"):
        store = BackupStore(to)
        there = store.contents()
        copier = _Copier(store, there)
        name = f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%S-%fZ}"
        found = _copy_all(lakehouse, copier)
        files = tuple(sorted(found.values()))
        if keep is not None and (lost := copier.held_before - _jobs_and_tables(found)):
            raise NotFound(
                f"{lakehouse.home} lacks {', '.join(sorted(lost))}, which the last backup in {to} has; no backup was made, and "
                "none was removed. Mount the disk, or restore that backup; if this was removed on purpose, back up once "
                "without --keep"
            )
        store.write(FileList(name, str(lakehouse.home), files))
        if keep is not None:
            store.keep(keep)
    new = {file.digest: file.size for file in files if file.digest not in there}
    return Backup(
        name, len(files), sum(file.size for file in files), len(new), sum(new.values()), time.monotonic() - began
    )


def _copy_all(lakehouse: Lakehouse, copier: "_Copier") -> dict[str, BackedUpFile]:
    for _ in range(_TRIES):
        before = live_pointers(lakehouse)
        found = {file.path: file for part in part_names(lakehouse) for file in copier.copy_part(lakehouse, part)}
        # Jobs that go live together must be copied from before that, or from after it. A second try copies what is new.
        if live_pointers(lakehouse) == before:
            return found
    raise KeyfoldError(
        f"generations of jobs in {lakehouse.home} went live during each of {_TRIES} tries; back up when no job is refreshed"
    )


def list_backups(folder: Place) -> list[str]:
    """The names of the backups in a folder or bucket, oldest first."""
    return BackupStore(folder).names()


def restore(folder: Place, lakehouse: Lakehouse, name: str | None = None) -> Restored:
    """Restore a backup to an empty lakehouse directory, and verify the digest of each file.

    Args:
        folder: the folder or bucket of backups.
        lakehouse: the lakehouse to create, at the same path as the original or at another.
        name: name of the backup; None for the newest.

    Raises:
        KeyfoldError: there is no such backup, part of it is gone or damaged, or the lakehouse directory is not empty.
        OSError: a disk is full or fails; remove the written files, and restore again.
    """
    began, store = time.monotonic(), BackupStore(folder)
    names = store.names()
    if not names:
        raise NotFound(f"there is no backup in {folder}")
    if lakehouse.home.is_dir() and next(iter(files_below(lakehouse.home)), None) is not None:
        raise Misconfigured(
            f"{lakehouse.home} is not empty: restore to a new lakehouse directory, or move this one aside"
        )
    files = store.read(name or names[-1])

    def write(one: BackedUpFile) -> None:
        path = lakehouse.home / one.path
        with new_file(path) as file:
            for some in store.get(one):
                file.write(some)

    with ThreadPoolExecutor(_COPIES_AT_ONCE) as copies:
        list(copies.map(write, files.files))
    size = sum(file.size for file in files.files)
    return Restored(files.name, str(lakehouse.home), len(files.files), size, time.monotonic() - began)


class _Copier:
    """Copies parts of a lakehouse. Files that have not changed since the last backup are not read."""

    def __init__(self, store: BackupStore, there: Mapping[str, int]) -> None:
        self._store, self._there = store, there
        names = store.names()
        before: Iterable[BackedUpFile] = store.read(names[-1]).files if names else ()
        self._before = {file.path: file for file in before}
        self.held_before = _jobs_and_tables(self._before)
        self._new: set[str] = set()

    def copy_part(self, lakehouse: Lakehouse, name: str) -> list[BackedUpFile]:
        """Copy a part. If files were removed meanwhile, list it again and retry."""
        for attempt in range(1, _TRIES + 1):
            try:
                part = cut_part(lakehouse, name)
                with ThreadPoolExecutor(_COPIES_AT_ONCE) as copies:
                    copied = list(copies.map(self._copy, part.files, part.files.values()))
                return [*copied, *self._copy_held(part, copied)]
            except (MovedOnError, FileNotFoundError) as error:
                if not (lakehouse.home / name).exists():
                    return []
                if attempt == _TRIES:
                    raise KeyfoldError(
                        f"{name} could not be backed up in {_TRIES} tries: {error}. If a file is missing for good, restore "
                        "it; otherwise runs replace files faster than they are copied: back up when fewer runs are active"
                    ) from error
        raise AssertionError("a try returns or raises")

    def _copy(self, path: str, file: FoundFile) -> BackedUpFile:
        before = self._before.get(path)
        # Size, time and tag, without path and digest.
        is_same = before is not None and before[1:3] + before[4:] == (file.bytes, file.changed_at, file.tag)
        if before is not None and is_same and (before.digest in self._new or before.digest in self._there):
            return before
        with open_for_reading(file.path) as source:
            digest, size = self._store.put(source)
        self._new.add(digest)
        copied = BackedUpFile(path, size, file.changed_at, digest, file.tag)
        # Remembered, so that a retry of this part does not read the file again.
        self._before[path] = copied
        return copied

    def _copy_held(self, part: Part, copied: Iterable[BackedUpFile]) -> list[BackedUpFile]:
        # Checksum records of a bucket refer to files by tags, which differ after a restore: replace them by digests.
        digests = {one.tag: one.digest for one in copied if one.tag}
        digests |= {tag: digest_of(content) for content, tag in part.held.values() if tag}
        held = []
        for path, (content, _) in part.held.items():
            is_record = path.endswith(f"/journal/{CHECKSUMS}")
            digest, size = self._store.put(io.BytesIO(without_tags(content, digests) if is_record else content))
            held.append(BackedUpFile(path, size, 0, digest))
        return held


def _jobs_and_tables(files: Iterable[str]) -> set[str]:
    """The jobs, and the tables of streams, of jobs and about runs, that files of a lakehouse are of."""
    found = set[str]()
    for path in files:
        # Tables of a branch, or of a generation that is not live, may go at any time.
        if match := re.match(r"(jobs/[^/]+)/|((?:tables|events|quarantine|monitoring)/[^/]+)/_delta_log/", path):
            found.add(match[1] or match[2])
    return found
