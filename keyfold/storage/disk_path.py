"""Paths on file systems of this machine: files are renamed into place and synced; folders have kernel locks.

obstore's store of local files does not serve: it syncs nothing, has no conditional replacement, follows links, and makes files
that others may read.
"""

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path, PosixPath
from typing import IO, TYPE_CHECKING, TextIO

import xxhash

from keyfold.errors import KeyfoldError, Locked, Misconfigured
from keyfold.machine import A_LOOK, is_locked, take
from keyfold.storage.entries import (
    ListedFile,
    OtherEntry,
    files_in,
    make_folders,
    open_below,
    open_regular,
    open_within,
)
from keyfold.storage.storage_path import StoragePath

if TYPE_CHECKING:
    from keyfold.storage.place import Place

_ASIDE = ".aside-"
_READ_AT_ONCE = 4 << 20
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


class DiskPath(PosixPath, StoragePath):
    """A path on a disk. Its files have no tags, since a run holds its lock as long as it lives."""

    __slots__ = ()

    @property
    def local_path(self) -> "DiskPath":
        return self

    @property
    def catalog_name(self) -> tuple[str, str]:
        return "file", str(self.absolute())

    def as_source(self) -> Path:
        return self

    def read_with_tag(self) -> tuple[bytes, str]:
        return self.read_bytes(), ""

    def tag(self) -> str:
        return ""

    def fingerprint(self, within: "Place") -> str:
        with open_within(self._on_same_disk(within), self, buffered=False) as file:
            digest = xxhash.xxh3_128()
            while part := file.read(_READ_AT_ONCE):
                digest.update(part)
            return digest.hexdigest()

    def open_for_reading(self, read_ahead: int = 0, within: "Place | None" = None) -> IO[bytes]:
        # Unbuffered for callers that read large pieces, which a buffer would only copy.
        buffered = not read_ahead
        if within is None:
            return open_regular(self, buffered=buffered)
        return open_within(self._on_same_disk(within), self, buffered=buffered)

    def write_whole(self, content: bytes) -> None:
        """Write the file atomically but not durably: for content that can be made again after a power cut.

        Raises:
            OSError: as `write_durably`.
        """
        self._write(content, durably=False)

    def write_durably(self, content: bytes) -> None:
        self._write(content, durably=True)
        self.parent.sync_folder()

    def replace_content(self, content: bytes, tag: str) -> None:
        self.write_durably(content)

    @contextmanager
    def new_file(self, named: Callable[[IO[bytes]], str] | None = None) -> Iterator[IO[bytes]]:
        path = self
        make_folders(path.parent)
        try:
            with open(path, "x+b") as file:
                yield file
                if named:
                    # Rename before the sync, which makes the new name durable too.
                    path = path.rename(path.with_name(named(file)))
                _sync(file)
        except BaseException:
            path.unlink(missing_ok=True)
            raise

    def add_name(self, other: "Place") -> None:
        to = self._on_same_disk(other)
        make_folders(to.parent)
        try:
            os.link(self, to)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            raise Misconfigured(
                f"{to}: this disk has no hard links ({error.strerror}), by which tables go live: set KEYFOLD_HOME to a folder on a "
                "disk that has them"
            ) from None

    def move_file(self, to: "Place") -> None:
        os.rename(self, self._on_same_disk(to))
        to.parent.sync_folder()

    def move_tree(self, to: "Place", last: str) -> None:
        self.move_file(to)

    def remove_tree(self, *, missing_ok: bool = False) -> None:
        shutil.rmtree(self, ignore_errors=missing_ok)

    def names(self) -> list[str]:
        # No path of each name: a run lists its journal ten times, and a log may have thousands of entries.
        return os.listdir(self)

    def files_below(self, others: Callable[[OtherEntry], None] | None = None) -> Iterator[ListedFile]:
        return files_in(self, others)

    def listed(self) -> ListedFile:
        status = self.stat()
        return ListedFile(self, "", status.st_size, status.st_mtime_ns)

    def open_below(self, below: str) -> IO[bytes]:
        return open_below(self, below)

    def sync_file(self) -> None:
        # Opened for writing: some systems do not sync a file that is open only for reading.
        with open(self, "rb+") as file:
            os.fsync(file.fileno())

    def sync_folder(self) -> None:
        descriptor = os.open(self, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def sweep(self) -> None:
        for aside in self.glob(f"{_ASIDE}*"):
            aside.unlink(missing_ok=True)

    @contextmanager
    def exclusive(self, run: str, *, patience: timedelta = timedelta(0)) -> Iterator[None]:
        with self._opened_lock() as file:
            try:
                # A process that looks whether the lock is held has it for a moment (`is_held`).
                take(file, seconds=max(A_LOOK, patience.total_seconds()))
            except BlockingIOError:
                raise Locked(f"{run} is already running on {self}; wait for that run or stop it") from None
            yield

    def is_held(self) -> bool:
        return is_locked(self / ".lock")

    def _on_same_disk(self, other: "Place") -> "DiskPath":
        if other.local_path is None:
            raise KeyfoldError(f"{self} and {other} must both be on this disk or in the same store")
        return other.local_path

    def _write(self, content: bytes, *, durably: bool) -> None:
        make_folders(self.parent)
        # In the same folder, since a rename is atomic only within a file system. The dot hides it from readers.
        # `mkstemp` gives it mode 0600, which the file keeps: some of these files are secrets.
        descriptor, aside = tempfile.mkstemp(dir=self.parent, prefix=_ASIDE)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                if durably:
                    # Sync before the rename: otherwise a power cut may leave an empty file under the final name.
                    _sync(file)
            os.replace(aside, self)
        except BaseException:
            Path(aside).unlink(missing_ok=True)
            raise

    def _opened_lock(self) -> TextIO:
        try:
            self.mkdir(parents=True, exist_ok=True)
            return open(self / ".lock", "w", encoding="utf-8")
        except OSError as error:
            # The lock is a run's first write, so a lakehouse directory without write access is found here.
            raise Misconfigured(
                f"{error.filename or self} cannot be written: {error.strerror}; the lakehouse directory (--home, KEYFOLD_HOME) "
                "must be a folder that this user may write to"
            ) from None


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())
