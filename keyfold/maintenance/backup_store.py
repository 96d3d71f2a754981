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
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from keyfold.errors import Damaged, NotFound
from keyfold.lakehouse.files import files_below, new_file, open_for_reading, sweep, sync_folder, write_once
from keyfold.storage.place import Place, local_path, stays_below

_LIST = ".json.gz"
_AT_ONCE = 4 << 20
_DIGEST = re.compile(r"[0-9a-f]{64}")


class BackedUpFile(NamedTuple):
    """A file of a backup.

    Attributes:
        path: its path in the lakehouse.
        bytes: size of its content.
        changed_at: modification time of the original, in nanoseconds since 1970.
        tag: the store's tag of the original, since a store's times are only in seconds.
        digest: digest of its content.
    """

    path: str
    bytes: int
    changed_at: int
    tag: str
    digest: str


class BackupStore:
    """The backups in a folder or bucket."""

    def __init__(self, folder: Place) -> None:
        self.folder = folder
        self._content, self._lists = folder / "content", folder / "backups"

    def names(self) -> list[str]:
        """The names of the backups, oldest first."""
        return sorted(path.name.removesuffix(_LIST) for path in self._lists.glob(f"*{_LIST}"))

    def read(self, name: str) -> list[BackedUpFile]:
        """Read the list of a backup's files.

        Raises:
            KeyfoldError: there is no such backup, its list is damaged, or it names a file outside of the lakehouse.
        """
        path = self._lists / f"{name}{_LIST}"
        try:
            files = [BackedUpFile(*one) for one in json.loads(gzip.decompress(path.read_bytes()))]
        except FileNotFoundError:
            there = ", ".join(self.names()) or "none"
            raise NotFound(f"no backup {name!r} in {self.folder}; backups there: {there}") from None
        except (OSError, EOFError, ValueError, TypeError) as error:
            raise Damaged(
                f"{path} is damaged, or of another version of Keyfold ({error}); restore another backup"
            ) from error
        for one in files:
            if not stays_below(one.path) or not _DIGEST.fullmatch(one.digest):
                raise NotFound(
                    f"{path} names {one.path!r} outside of the lakehouse, or by what is no digest: Keyfold did not write this "
                    "list; restore another backup"
                )
        return files

    def write(self, name: str, files: Iterable[BackedUpFile]) -> None:
        """Write the list of a backup's files durably, which completes the backup."""
        self._content.mkdir(parents=True, exist_ok=True)
        sync_folder(self._content)
        write_once(self._lists / f"{name}{_LIST}", gzip.compress(json.dumps(list(files)).encode(), mtime=0))

    def put(self, path: Place) -> tuple[int, str]:
        """Store the content of a file, and return its size in bytes and its digest."""
        digest, size = hashlib.blake2b(digest_size=32), 0
        # Under a temporary name that `sweep` removes if this process is killed.
        aside = self._content / f".aside-{uuid.uuid4().hex}"
        with open_for_reading(path) as source, new_file(aside, lambda _: digest.hexdigest()) as file:
            while some := source.read(_AT_ONCE):
                digest.update(some)
                size += len(some)
                file.write(some)
        return size, digest.hexdigest()

    def contents(self) -> set[str]:
        """The digests of all contents. Call it under the folder's lock."""
        sweep(self._content)
        return {file.path.name for file in files_below(self._content)}

    def get(self, one: BackedUpFile) -> Iterator[bytes]:
        """Read the content of a file, piece by piece.

        Raises:
            KeyfoldError: the content is gone, or damaged, which is noticed after the last piece.
        """
        digest, where = hashlib.blake2b(digest_size=32), self._content / one.digest
        what = f"{where}, the content of {one.path},"
        if (local := local_path(where)) is not None and local.is_symlink():
            raise Damaged(f"{what} is a link, which Keyfold never writes; restore another backup")
        try:
            with open_for_reading(where) as file:
                while some := file.read(_AT_ONCE):
                    digest.update(some)
                    yield some
        except FileNotFoundError:
            raise Damaged(f"{what} is gone; restore another backup") from None
        if digest.hexdigest() != one.digest:
            raise Damaged(f"{what} is damaged; restore another backup")
