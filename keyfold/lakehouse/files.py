"""Write files atomically, on a disk or in an object store.

On a disk, a file is written under a temporary name, synced and renamed, under its folder's lock. An object store writes
objects whole (`RemotePath`), but a lease can expire while a run is paused. So each write checks the lease first, and files
that must not be overwritten by a paused run are written conditionally: only if new, or unchanged since they were read.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from keyfold.errors import Damaged, KeyfoldError, Locked
from keyfold.storage.lease import check_held
from keyfold.storage.place import Place
from keyfold.storage.remote_path import RemotePath

_ASIDE = ".aside-"


class FoundFile(NamedTuple):
    """A file below a folder.

    Attributes:
        path: its path.
        bytes: its size.
        changed_at: time of its last change, in nanoseconds since 1970.
        is_shared: whether it has more than one hard link; always False in a store.
        tag: the store's tag (ETag) of its content; empty on a disk.
    """

    path: Place
    bytes: int
    changed_at: int
    is_shared: bool = False
    tag: str = ""


class DamagedError(Damaged):
    """A file is not the JSON object that it should be: the disk has failed, or somebody has edited it.

    Attributes:
        tag: the file's tag, with which `replace_json` can overwrite it.
    """

    tag: str = ""


def read_json(path: Place, remedy: str = "") -> dict[str, Any]:
    """Read a small JSON object.

    Args:
        path: the file.
        remedy: what can be done other than restoring it, for the error message.

    Raises:
        DamagedError: the file is not a JSON object.
    """
    return _as_object(path, path.read_text(encoding="utf-8", errors="replace"), remedy)


def read_json_with_tag(path: Place) -> tuple[dict[str, Any] | None, str]:
    """Read a small JSON object, None if the file is missing, and its tag for `replace_json`.

    Raises:
        DamagedError: as `read_json`.
    """
    tag = ""
    try:
        content, tag = read_with_tag(path)
        return _as_object(path, content.decode(errors="replace")), tag
    except DamagedError as error:
        error.tag = tag
        raise
    except FileNotFoundError:
        return None, ""


def read_with_tag(path: Place) -> tuple[bytes, str]:
    """Read a file's content and its tag for `replace`; on a disk the tag is empty.

    Raises:
        FileNotFoundError: the file is missing.
    """
    return path.read_with_tag() if isinstance(path, RemotePath) else (path.read_bytes(), "")


def write_json(path: Place, content: dict[str, Any]) -> None:
    """Write a small JSON object; see `write_durably`."""
    write_durably(path, _of_object(content))


def write_json_once(path: Place, content: dict[str, Any]) -> None:
    """Write a small JSON object that never changes; see `write_once`."""
    write_once(path, _of_object(content))


def replace_json(path: Place, content: dict[str, Any], tag: str) -> None:
    """Replace the JSON object that has a tag; without a tag, create it.

    Raises:
        KeyfoldError: in a store, another run has written the file since; it was not changed.
    """
    replace(path, _of_object(content), tag)


def write_durably(path: Place, content: bytes) -> None:
    """Write a file atomically and durably: readers see the old content or the new, also after a power cut.

    Raises:
        OSError: the disk is full or fails; the old file was not changed, and no temporary file is left.
        KeyfoldError: this run has lost its lease.
    """
    if isinstance(path, RemotePath):
        check_held()
        path.write_bytes(content)
        return
    _write(path, content, durably=True)
    sync_folder(path.parent)


def write_once(path: Place, content: bytes) -> None:
    """Write a file that never changes, durably.

    Raises:
        OSError: as `write_durably`.
        KeyfoldError: in a store, another run has written it with other content; it was not changed.
    """
    if isinstance(path, RemotePath):
        _write_conditionally(path, content, path.create)
    else:
        write_durably(path, content)


def replace(path: Place, content: bytes, tag: str) -> None:
    """Replace the file that has a tag, durably; without a tag, create it.

    Args:
        path: the file.
        content: its new content. Finding this content is a success too: the answer to an earlier write may have been lost.
        tag: the tag as read. Not used on a disk, where a run holds its lock as long as it lives.

    Raises:
        OSError: as `write_durably`.
        KeyfoldError: in a store, another run has written it since; it was not changed.
    """
    if not isinstance(path, RemotePath):
        write_durably(path, content)
    elif tag:
        _write_conditionally(path, content, lambda content: path.write_if_unchanged(content, tag))
    else:
        _write_conditionally(path, content, path.create)


def tag_of(path: Place) -> str:
    """A file's current tag, for `replace`; empty if it is missing."""
    if not isinstance(path, RemotePath):
        return ""
    try:
        return path.stat().e_tag or ""
    except FileNotFoundError:
        return ""


def write_whole(path: Place, content: bytes) -> None:
    """Write a file atomically but not durably: for content that can be made again after a power cut.

    Raises:
        OSError: as `write_durably`.
    """
    if isinstance(path, RemotePath):
        path.write_bytes(content)
    else:
        _write(path, content, durably=False)


@contextmanager
def new_file(path: Place, named: Callable[[IO[bytes]], str] | None = None) -> Iterator[IO[bytes]]:
    """Open a new file for writing and reading. It is durable when the context ends, and removed on an error.

    The file is visible while it is written, so its name must be one that no reader looks for.

    Args:
        path: the new file.
        named: returns its final name, in the same folder, from the written content.

    Raises:
        OSError: the disk is full or fails.
    """
    if isinstance(path, RemotePath):
        # On the local disk first: a worker already holds its rows in memory.
        with tempfile.TemporaryFile() as file:
            yield file
            to = path.with_name(named(file)) if named else path
            file.seek(0)
            to.write_from(file)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
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


def open_for_reading(path: Place) -> IO[bytes]:
    """Open a file for reading. From a store, only the ranges that are read are fetched."""
    return path.open_reader() if isinstance(path, RemotePath) else open(path, "rb")


def second_name(path: Place, other: Place) -> None:
    """Hard-link a file, or copy it within a store. Removing one does not remove the other.

    Raises:
        OSError: the link cannot be made, for example because the two are on different disks.
        KeyfoldError: the two are not on a disk, or not in the same store.
    """
    if isinstance(path, RemotePath) and isinstance(other, RemotePath) and path.shares_store_with(other):
        path.copy_to(other)
    elif isinstance(path, Path) and isinstance(other, Path):
        other.parent.mkdir(parents=True, exist_ok=True)
        os.link(path, other)
    else:
        raise KeyfoldError(f"{path} cannot be linked to {other}: both must be on this disk or in the same store")


def move_tree(folder: Place, to: Place, last: str) -> None:
    """Move a folder to a path that does not exist.

    Atomic on a disk. In a bucket, the store copies file by file: the file named `last` is copied last and removed first, so
    a folder that has it is complete.

    Raises:
        OSError: the disk fails.
        KeyfoldError: this run has lost its lease.
    """
    if isinstance(folder, RemotePath) and isinstance(to, RemotePath):
        folder.move_tree_to(to, last, check_held)
        return
    os.rename(str(folder), str(to))
    sync_folder(to.parent)


def move_file(path: Place, to: Place) -> None:
    """Move a file to a path that does not exist. In a bucket it is in both for a moment.

    Raises:
        OSError: the disk fails.
        KeyfoldError: this run has lost its lease.
    """
    if isinstance(path, RemotePath) and isinstance(to, RemotePath):
        check_held()
        path.move_file_to(to)
        return
    os.rename(str(path), str(to))
    sync_folder(to.parent)


def remove_tree(folder: Place, *, missing_ok: bool = False) -> None:
    """Remove a folder and everything in it.

    Args:
        folder: the folder.
        missing_ok: whether the folder, or files in it, may be missing already.

    Raises:
        OSError: the folder cannot be removed.
        KeyfoldError: this run has lost its lease.
    """
    if isinstance(folder, RemotePath):
        check_held()
        folder.remove_tree()
    else:
        shutil.rmtree(folder, ignore_errors=missing_ok)


def files_below(folder: Place) -> Iterator[FoundFile]:
    """All files below a folder, at any depth; files removed meanwhile may be left out. Links are not followed."""
    if isinstance(folder, RemotePath):
        for path, found in folder.below():
            yield FoundFile(path, found.st_size, found.st_mtime_ns, tag=found.e_tag or "")
        return
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent) / name
            try:
                found = path.lstat()
            except FileNotFoundError:
                continue
            yield FoundFile(path, found.st_size, found.st_mtime_ns, found.st_nlink > 1)


def sync_file(path: Place) -> None:
    """Sync a file that another program has written."""
    if isinstance(path, RemotePath):
        return
    # Opened for writing: some systems do not sync a file that is open only for reading.
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Place) -> None:
    """Sync a folder, so that new and renamed files in it are durable."""
    if isinstance(folder, RemotePath):
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sweep(folder: Place) -> None:
    """Remove temporary files of killed processes. Call it only under the folder's lock."""
    if isinstance(folder, RemotePath):
        return  # a store has no partly written objects
    for aside in folder.glob(f"{_ASIDE}*"):
        aside.unlink(missing_ok=True)


def _as_object(path: Place, text: str, remedy: str = "") -> dict[str, Any]:
    what_to_do = "restore it from a backup" + (f", or {remedy}" if remedy else "")
    try:
        found = json.loads(text)
    except ValueError as error:
        raise DamagedError(f"{path} is damaged ({error}); {what_to_do}") from error
    if not isinstance(found, dict):
        raise DamagedError(f"{path} is damaged (it is not a JSON object); {what_to_do}")
    return found


def _of_object(content: dict[str, Any]) -> bytes:
    return json.dumps(content, indent=1, sort_keys=True).encode()


def _write_conditionally(path: RemotePath, content: bytes, write: Callable[[bytes], str]) -> None:
    check_held()
    try:
        write(content)
    except FileExistsError:
        if _content(path) != content:
            raise Locked(
                f"{path} has been written by another run meanwhile, and stays as that run wrote it; nothing of this one "
                "was committed. Run it again: it goes on from there"
            ) from None


def _content(path: RemotePath) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _write(path: Path, content: bytes, *, durably: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
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
