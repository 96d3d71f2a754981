"""Backing a lakehouse up while runs go on, and restoring it."""

import io
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
from keyfold.maintenance.backup.cut import MovedOnError, Part, cut_part, part_names
from keyfold.maintenance.backup.store import BackedUpFile, BackupStore, FileList, digest_of
from keyfold.storage.place import Place, path_below

_TRIES = 10
_COPIES_AT_ONCE = 8


@dataclass(frozen=True)
class Backup:
    """A backup that was made.

    Attributes:
        name: when it was begun, in UTC; `restore` takes it.
        files, bytes: of which it consists.
        new_contents, new_bytes: that no earlier backup had.
        seconds: that it took.
    """

    name: str
    files: int
    bytes: int
    new_contents: int
    new_bytes: int
    seconds: float


@dataclass(frozen=True)
class Restored:
    """A lakehouse that was restored.

    Attributes:
        name: of the backup.
        home: where it is now.
        files, bytes: that were written.
        seconds: that it took.
    """

    name: str
    home: str
    files: int
    bytes: int
    seconds: float


def back_up(lakehouse: Lakehouse, to: Place, *, keep: int | None = None) -> Backup:
    """Back a lakehouse up; runs, continuous ones too, and maintenance go on meanwhile.

    Args:
        lakehouse: whose files.
        to: a folder or bucket of backups outside of it; made where there is none.
        keep: how many backups stay there; all without it.

    Raises:
        KeyfoldError: there is no lakehouse, `to` lies in it, another backup to there is under way, or runs replace files
            faster than they can be copied.
        OSError: a disk is full or fails; there is no new backup then.
    """
    if not lakehouse.home.is_dir():
        raise NotFound(f"there is no lakehouse in {lakehouse.home}")
    if path_below(to, lakehouse.home) is not None:
        raise Misconfigured(f"{to} lies in the lakehouse {lakehouse.home}: back it up to a place outside of it")
    if keep is not None and keep < 1:
        raise Misconfigured(f"keep is {keep}: at least the new backup stays")
    began = time.monotonic()
    with exclusive(to, "a backup"):
        store = BackupStore(to)
        there = store.contents()
        copier = _Copier(store, there)
        name = f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%S-%fZ}"
        found = {file.path: file for part in part_names(lakehouse) for file in copier.copy_part(lakehouse, part)}
        files = tuple(sorted(found.values()))
        store.write(FileList(name, str(lakehouse.home), files))
        if keep is not None:
            store.keep(keep)
    new = {file.digest: file.size for file in files if file.digest not in there}
    return Backup(
        name, len(files), sum(file.size for file in files), len(new), sum(new.values()), time.monotonic() - began
    )


def list_backups(folder: Place) -> list[str]:
    """The names of the backups in a folder or bucket, oldest first."""
    return BackupStore(folder).names()


def restore(folder: Place, lakehouse: Lakehouse, name: str | None = None) -> Restored:
    """Write the files of a backup to a home where nothing is yet; each content is compared with its digest.

    Args:
        folder: of backups.
        lakehouse: whose home is to be made; it may be another place than the backup's own.
        name: of the backup; the newest without it.

    Raises:
        KeyfoldError: there is no such backup, a content of it is gone or damaged, or the home is not empty.
        OSError: a disk is full or fails; remove what was written, and restore again.
    """
    began, store = time.monotonic(), BackupStore(folder)
    names = store.names()
    if not names:
        raise NotFound(f"there is no backup in {folder}")
    if lakehouse.home.is_dir() and next(iter(files_below(lakehouse.home)), None) is not None:
        raise Misconfigured(f"{lakehouse.home} is not empty: restore to a new home, or move that one aside")
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
    """Copies parts; what an earlier backup holds of a file that has not changed since is not read again."""

    def __init__(self, store: BackupStore, there: Mapping[str, int]) -> None:
        self._store, self._there = store, there
        names = store.names()
        before: Iterable[BackedUpFile] = store.read(names[-1]).files if names else ()
        self._before = {file.path: file for file in before}
        self._new: set[str] = set()

    def copy_part(self, lakehouse: Lakehouse, name: str) -> list[BackedUpFile]:
        """Copy a part, from its list on again where files of it went meanwhile."""
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
                        "it; else runs replace files faster than they are copied: back up when there is less to do"
                    ) from error
        raise AssertionError("a try returns or raises")

    def _copy(self, path: str, file: FoundFile) -> BackedUpFile:
        before = self._before.get(path)
        is_same = before is not None and before[1:3] + before[4:] == (file.bytes, file.changed_at, file.tag)
        if before is not None and is_same and (before.digest in self._new or before.digest in self._there):
            return before
        with open_for_reading(file.path) as source:
            digest, size = self._store.put(source)
        self._new.add(digest)
        copied = BackedUpFile(path, size, file.changed_at, digest, file.tag)
        # So that another try of this part does not read it again.
        self._before[path] = copied
        return copied

    def _copy_held(self, part: Part, copied: Iterable[BackedUpFile]) -> list[BackedUpFile]:
        digests = {one.tag: one.digest for one in copied if one.tag}
        digests |= {tag: digest_of(content) for content, tag in part.held.values() if tag}
        held = []
        for path, (content, _) in part.held.items():
            is_record = path.endswith(f"/journal/{CHECKSUMS}")
            digest, size = self._store.put(io.BytesIO(without_tags(content, digests) if is_record else content))
            held.append(BackedUpFile(path, size, 0, digest))
        return held
