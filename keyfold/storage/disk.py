"""The storage of file systems of this machine: files are renamed into place and synced; folders have kernel locks."""

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import IO, TextIO

import xxhash

from keyfold.errors import KeyfoldError, Locked, Misconfigured
from keyfold.machine import A_LOOK, is_locked, take
from keyfold.storage.entries import OtherEntry, files_in, make_folders, open_below, open_regular, open_within
from keyfold.storage.place import FoundFile, Place, local_path

_ASIDE = ".aside-"
_READ_AT_ONCE = 4 << 20
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


class Disk:
    """Files on a disk. They have no tags, since a run holds its lock as long as it lives."""

    def read_with_tag(self, path: Path) -> tuple[bytes, str]:
        return path.read_bytes(), ""

    def tag_of(self, path: Path) -> str:
        return ""

    def fingerprint(self, path: Path, within: Path) -> str:
        with open_within(within, path, buffered=False) as file:
            digest = xxhash.xxh3_128()
            while part := file.read(_READ_AT_ONCE):
                digest.update(part)
            return digest.hexdigest()

    def open(self, path: Path, read_ahead: int, within: Path | None) -> IO[bytes]:
        # Unbuffered for callers that read large pieces, which a buffer would only copy.
        buffered = not read_ahead
        return open_regular(path, buffered=buffered) if within is None else open_within(within, path, buffered=buffered)

    def open_found(self, file: FoundFile) -> IO[bytes]:
        assert isinstance(file.folder, Path)  # noqa: S101 - narrows: only the files of a disk come here
        return open_below(file.folder, file.below)

    def write_whole(self, path: Path, content: bytes) -> None:
        _write(path, content, durably=False)

    def write_durably(self, path: Path, content: bytes) -> None:
        _write(path, content, durably=True)
        self.sync_folder(path.parent)

    def replace(self, path: Path, content: bytes, tag: str) -> None:
        self.write_durably(path, content)

    @contextmanager
    def new_file(self, path: Path, named: Callable[[IO[bytes]], str] | None) -> Iterator[IO[bytes]]:
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

    def second_name(self, path: Path, other: Place) -> None:
        if (to := local_path(other)) is None:
            raise KeyfoldError(f"{path} cannot be linked to {other}: both must be on this disk or in the same store")
        make_folders(to.parent)
        try:
            os.link(path, to)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            raise Misconfigured(
                f"{to}: this disk has no hard links ({error.strerror}), by which tables go live: set KEYFOLD_HOME to a folder on a "
                "disk that has them"
            ) from None

    def move_tree(self, folder: Path, to: Path, last: str) -> None:
        self.move_file(folder, to)

    def move_file(self, path: Path, to: Path) -> None:
        os.rename(path, to)
        self.sync_folder(to.parent)

    def remove_tree(self, folder: Path, *, missing_ok: bool) -> None:
        shutil.rmtree(folder, ignore_errors=missing_ok)

    def files_below(self, folder: Path, others: Callable[[OtherEntry], None] | None) -> Iterator[FoundFile]:
        return files_in(folder, others)

    def sync_file(self, path: Path) -> None:
        # Opened for writing: some systems do not sync a file that is open only for reading.
        with open(path, "rb+") as file:
            os.fsync(file.fileno())

    def sync_folder(self, folder: Path) -> None:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def sweep(self, folder: Path) -> None:
        for aside in folder.glob(f"{_ASIDE}*"):
            aside.unlink(missing_ok=True)

    @contextmanager
    def exclusive(self, folder: Path, what: str, patience: timedelta) -> Iterator[None]:
        with _opened_lock(folder) as file:
            try:
                # A process that looks whether the lock is held has it for a moment (`is_held`).
                take(file, seconds=max(A_LOOK, patience.total_seconds()))
            except BlockingIOError:
                raise Locked(f"{what} is already running on {folder}; wait for that run or stop it") from None
            yield

    def is_held(self, folder: Path) -> bool:
        return is_locked(folder / ".lock")


def _write(path: Path, content: bytes, *, durably: bool) -> None:
    make_folders(path.parent)
    # In the same folder, since a rename is atomic only within a file system. The dot hides it from readers.
    # `mkstemp` gives it mode 0600, which the file keeps: some of these files are secrets.
    descriptor, aside = tempfile.mkstemp(dir=path.parent, prefix=_ASIDE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            if durably:
                # Sync before the rename: otherwise a power cut may leave an empty file under the final name.
                _sync(file)
        os.replace(aside, path)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _opened_lock(folder: Path) -> TextIO:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return open(folder / ".lock", "w", encoding="utf-8")
    except OSError as error:
        # The lock is a run's first write, so a lakehouse directory without write access is found here.
        raise Misconfigured(
            f"{error.filename or folder} cannot be written: {error.strerror}; the lakehouse directory (--home, KEYFOLD_HOME) "
            "must be a folder that this user may write to"
        ) from None
