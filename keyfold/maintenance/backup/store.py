"""A folder or bucket of backups: each content once, under its digest, and a list of files for each backup.

TO/content/<digest>              the content of files (BLAKE2b, 256 bits)
TO/backups/<time>.json.gz        the list of a backup's files, written last

Backups share contents that have not changed. Each backup can be restored by itself.
"""

import gzip
import hashlib
import json
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, NamedTuple

from keyfold.errors import Damaged, IncompatibleState, NotFound
from keyfold.lakehouse.files import files_below, new_file, open_for_reading, sweep, sync_folder, write_once
from keyfold.storage.place import Place, local_path, stays_below

_FORMAT = 1
_AT_ONCE = 4 << 20
_DIGEST = re.compile(r"[0-9a-f]{64}")


class BackedUpFile(NamedTuple):
    """A file of a backup.

    Attributes:
        path: its path in the lakehouse.
        size: bytes.
        changed_at: modification time of the original, in nanoseconds since 1970; 0 if its content was held in memory.
        digest: digest of its content.
        tag: the store's tag of the original, since a store's times are only in seconds.
    """

    path: str
    size: int
    changed_at: int
    digest: str
    tag: str = ""


@dataclass(frozen=True)
class FileList:
    """The list of a backup's files.

    Attributes:
        name: name of the backup: the time when it began, in UTC.
        home: the lakehouse directory that was backed up.
        files: the files, in the order of their paths.
    """

    name: str
    home: str
    files: tuple[BackedUpFile, ...]


class BackupStore:
    """The backups in a folder or bucket."""

    def __init__(self, folder: Place) -> None:
        self.folder = folder
        self._content, self._lists = folder / "content", folder / "backups"

    def names(self) -> list[str]:
        """The names of the backups, oldest first."""
        suffix = ".json.gz"
        try:
            return sorted(path.name.removesuffix(suffix) for path in self._lists.glob(f"*{suffix}"))
        except FileNotFoundError:
            return []

    def read(self, name: str) -> FileList:
        """Read the list of a backup's files.

        Raises:
            KeyfoldError: there is no such backup, its list is damaged, or it names a file outside of the lakehouse.
        """
        path = self._lists / f"{name}.json.gz"
        try:
            found = json.loads(gzip.decompress(path.read_bytes()))
            files = tuple(BackedUpFile(*one) for one in found["files"])
            is_known = found["format"] == _FORMAT
        except FileNotFoundError:
            there = ", ".join(self.names()) or "none"
            raise NotFound(f"no backup {name!r} in {self.folder}; backups there: {there}") from None
        except (OSError, EOFError, ValueError, TypeError, KeyError) as error:
            raise Damaged(f"{path} is damaged ({error}); restore another backup") from error
        if not is_known:
            raise IncompatibleState(f"{path} was written by another version of Keyfold; restore it with that version")
        if bad := [one.path for one in files if not stays_below(one.path) or not _DIGEST.fullmatch(one.digest)]:
            raise NotFound(
                f"{path} names {bad[0]!r} outside of the lakehouse, or by what is no digest: Keyfold did not write this list; "
                "restore another backup"
            )
        return FileList(name, found["home"], files)

    def write(self, files: FileList) -> None:
        """Write the list of a backup's files durably, which completes the backup."""
        sync_folder(self._content)
        content = {"format": _FORMAT, "home": files.home, "files": files.files}
        write_once(self._lists / f"{files.name}.json.gz", gzip.compress(json.dumps(content).encode(), mtime=0))

    def put(self, source: IO[bytes]) -> tuple[str, int]:
        """Store a content, and return its digest and its size in bytes."""
        digest, size = hashlib.blake2b(digest_size=32), 0
        # Under a temporary name that `sweep` removes if this process is killed.
        with new_file(self._content / f".aside-{uuid.uuid4().hex}", lambda _: digest.hexdigest()) as file:
            while some := source.read(_AT_ONCE):
                digest.update(some)
                size += len(some)
                file.write(some)
        return digest.hexdigest(), size

    def contents(self) -> dict[str, int]:
        """The sizes of all contents, by digest. Call it under the folder's lock."""
        if not self._content.is_dir():
            return {}
        sweep(self._content)
        return {file.path.name: file.bytes for file in files_below(self._content)}

    def get(self, one: BackedUpFile) -> Iterator[bytes]:
        """Read the content of a file, piece by piece.

        Raises:
            KeyfoldError: the content is gone, or damaged, which is noticed after the last piece.
        """
        digest, where = hashlib.blake2b(digest_size=32), self._content / one.digest
        if (local := local_path(where)) is not None and local.is_symlink():
            raise Damaged(
                f"{where}, the content of {one.path}, is a link, which Keyfold never writes; restore another backup"
            )
        try:
            with open_for_reading(where) as file:
                while some := file.read(_AT_ONCE):
                    digest.update(some)
                    yield some
        except FileNotFoundError:
            raise Damaged(f"{where}, the content of {one.path}, is gone; restore another backup") from None
        if digest.hexdigest() != one.digest:
            raise Damaged(f"{where}, the content of {one.path}, is damaged; restore another backup")

    def keep(self, number: int) -> int:
        """Remove all but the newest backups, and contents that no backup uses; return the number of removed contents."""
        for name in self.names()[:-number]:
            (self._lists / f"{name}.json.gz").unlink(missing_ok=True)
        # After the lists are removed, so that an interruption leaves unused contents and never a list without contents.
        wanted = {one.digest for name in self.names() for one in self.read(name).files}
        unwanted = self.contents().keys() - wanted
        for digest in unwanted:
            (self._content / digest).unlink(missing_ok=True)
        return len(unwanted)


def digest_of(content: bytes) -> str:
    """The digest under which a content is stored."""
    return hashlib.blake2b(content, digest_size=32).hexdigest()
