"""The storage of buckets: objects are written whole, under a valid lease, and conditionally if another run may write them."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import IO, Any

from keyfold.errors import KeyfoldError, Locked
from keyfold.storage.entries import OtherEntry
from keyfold.storage.lease import check_held, is_leased, leased
from keyfold.storage.object_path import ObjectPath
from keyfold.storage.place import FoundFile, Place


class Bucket:
    """Objects in a bucket. Writes are atomic and durable, so nothing is synced or swept."""

    def read_with_tag(self, path: ObjectPath) -> tuple[bytes, str]:
        return path.read_with_tag()

    def tag_of(self, path: ObjectPath) -> str:
        try:
            return path.stat().e_tag or ""
        except FileNotFoundError:
            return ""

    def fingerprint(self, path: ObjectPath, within: ObjectPath) -> str:
        return path.stat().e_tag or ""

    def open(self, path: ObjectPath, read_ahead: int, within: ObjectPath | None) -> IO[bytes]:
        # A bucket has no links that could lead elsewhere.
        return path.open_reader(read_ahead) if read_ahead else path.open_reader()

    def open_found(self, file: FoundFile) -> IO[bytes]:
        assert isinstance(file.path, ObjectPath)  # noqa: S101 - narrows: only objects come here
        return file.path.open_reader()

    def write_whole(self, path: ObjectPath, content: bytes) -> None:
        path.write_bytes(content)

    def write_durably(self, path: ObjectPath, content: bytes) -> None:
        check_held()
        path.write_bytes(content)

    def replace(self, path: ObjectPath, content: bytes, tag: str) -> None:
        check_held()
        try:
            if tag:
                path.write_if_unchanged(content, tag)
            else:
                path.create(content)
        except FileExistsError:
            # The answer to an earlier try may have been lost: the content may be this one.
            if _content(path) != content:
                raise Locked(
                    f"{path} was written by another run in the meantime, and was not changed; this run committed nothing. "
                    "Run it again: it continues from there"
                ) from None

    @contextmanager
    def new_file(self, path: ObjectPath, named: Callable[[IO[bytes]], str] | None) -> Iterator[IO[bytes]]:
        # On the local disk first: a worker already holds its rows in memory.
        with tempfile.TemporaryFile() as file:
            yield file
            to = path.with_name(named(file)) if named else path
            file.seek(0)
            to.write_from(file)

    def second_name(self, path: ObjectPath, other: Place) -> None:
        if not isinstance(other, ObjectPath) or not path.shares_store_with(other):
            raise KeyfoldError(f"{path} cannot be linked to {other}: both must be on this disk or in the same store")
        path.copy_to(other)

    def move_tree(self, folder: ObjectPath, to: ObjectPath, last: str) -> None:
        # False sorts before True: what is named `last` is copied last.
        files = sorted((path for path, _ in folder.below()), key=lambda path: path.is_relative_to(folder / last))
        for path in files:
            check_held()
            path.copy_to(to / path.relative_to(folder))
        # Removed first, so that a folder that has it is always complete.
        for path in reversed(files):
            check_held()
            path.unlink(missing_ok=True)

    def move_file(self, path: ObjectPath, to: ObjectPath) -> None:
        check_held()
        path.copy_to(to)
        path.unlink(missing_ok=True)

    def remove_tree(self, folder: ObjectPath, *, missing_ok: bool) -> None:
        check_held()
        folder.remove_tree()

    def files_below(self, folder: ObjectPath, others: Callable[[OtherEntry], None] | None) -> Iterator[FoundFile]:
        for path, found in folder.below():
            below = path.relative_to(folder).as_posix()
            yield FoundFile(folder, below, found.st_size, found.st_mtime_ns, tag=found.e_tag or "")

    def sync_file(self, path: ObjectPath) -> None: ...

    def sync_folder(self, folder: ObjectPath) -> None: ...

    def sweep(self, folder: ObjectPath) -> None: ...

    def exclusive(self, folder: ObjectPath, what: str, patience: timedelta) -> AbstractContextManager[Any]:
        return leased(folder, what, patience=patience)

    def is_held(self, folder: ObjectPath) -> bool:
        return is_leased(folder)


def _content(path: ObjectPath) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
