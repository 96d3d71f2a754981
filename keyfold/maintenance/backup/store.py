"""A folder or bucket of backups: each content once, under its digest, and a list of files a backup.

TO/content/<digest>              the content of files (BLAKE2b, 256 bits)
TO/backups/<time>.json.gz        what a backup consists of; it is written last

A backup shares with earlier ones what has not changed, and each is whole by itself.
"""

import gzip
import hashlib
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO, NamedTuple

from keyfold.errors import Damaged, IncompatibleState, NotFound
from keyfold.lakehouse.files import files_below, new_file, open_for_reading, sweep, sync_folder, write_once
from keyfold.storage.place import Place

_FORMAT = 1
_AT_ONCE = 4 << 20


class BackedUpFile(NamedTuple):
    """A file of a backup.

    Attributes:
        path: below the lakehouse's home.
        size: bytes.
        changed_at: of the file that was copied, nanoseconds since 1970; 0 of one whose content was held.
        digest: of its content.
        tag: of the file that was copied from a bucket: there, times are in seconds.
    """

    path: str
    size: int
    changed_at: int
    digest: str
    tag: str = ""


@dataclass(frozen=True)
class FileList:
    """What a backup consists of.

    Attributes:
        name: of the backup: when it was begun, in UTC.
        home: whose it is.
        files: in order of their paths.
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
        """The backups that are there, oldest first."""
        suffix = ".json.gz"
        try:
            return sorted(path.name.removesuffix(suffix) for path in self._lists.glob(f"*{suffix}"))
        except FileNotFoundError:
            return []

    def read(self, name: str) -> FileList:
        """The list of a backup's files.

        Raises:
            KeyfoldError: there is none of that name, it is damaged, or it names a file outside of a home.
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
            raise Damaged(f"{path} is damaged ({error}); take another backup of the list") from error
        if not is_known:
            raise IncompatibleState(f"{path} was written by another version of Keyfold; restore it with that version")
        if bad := [one.path for one in files if not _stays_below(one.path)]:
            raise NotFound(f"{path} names {bad[0]!r}, which is outside of a home: no backup of Keyfold's does so")
        return FileList(name, found["home"], files)

    def write(self, files: FileList) -> None:
        """Write the list of a backup's files, durably: from here on there is that backup."""
        sync_folder(self._content)
        content = {"format": _FORMAT, "home": files.home, "files": files.files}
        write_once(self._lists / f"{files.name}.json.gz", gzip.compress(json.dumps(content).encode(), mtime=0))

    def put(self, source: IO[bytes]) -> tuple[str, int]:
        """Store a content; gives back its digest and its size in bytes."""
        digest, size = hashlib.blake2b(digest_size=32), 0
        # By a name that `sweep` knows, should this process be killed.
        with new_file(self._content / f".aside-{uuid.uuid4().hex}", lambda _: digest.hexdigest()) as file:
            while some := source.read(_AT_ONCE):
                digest.update(some)
                size += len(some)
                file.write(some)
        return digest.hexdigest(), size

    def contents(self) -> dict[str, int]:
        """The sizes of the contents that are there, by digest; call it under the lock of whoever writes there."""
        if not self._content.is_dir():
            return {}
        sweep(self._content)
        return {file.path.name: file.bytes for file in files_below(self._content)}

    def get(self, one: BackedUpFile) -> Iterator[bytes]:
        """The content of a file, piece by piece.

        Raises:
            KeyfoldError: it is gone or damaged, which shows at the last piece.
        """
        digest, where = hashlib.blake2b(digest_size=32), self._content / one.digest
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
        """Remove all but the newest backups, and the contents that no backup has; gives back how many contents went."""
        for name in self.names()[:-number]:
            (self._lists / f"{name}.json.gz").unlink(missing_ok=True)
        wanted = {one.digest for name in self.names() for one in self.read(name).files}
        unwanted = self.contents().keys() - wanted
        for digest in unwanted:
            (self._content / digest).unlink(missing_ok=True)
        return len(unwanted)


def digest_of(content: bytes) -> str:
    """The digest by which a content is stored."""
    return hashlib.blake2b(content, digest_size=32).hexdigest()


def _stays_below(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return bool(parts) and not path.startswith("/") and ".." not in parts and "\\" not in path and "\0" not in path
