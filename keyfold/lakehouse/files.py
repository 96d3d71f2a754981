"""Write files atomically, and lock folders, on a disk or in an object store.

On a disk, a file is written under a temporary name, synced and renamed, under its folder's lock. An object store writes
objects whole, but a lease can expire while a run is paused. So each write checks the lease first, and files
that must not be overwritten by a paused run are written conditionally: only if new, or unchanged since they were read. A lock on a
disk is a kernel lock, released when its process ends; in a store it is a lease (`keyfold.storage.lease`).
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from datetime import timedelta
from types import MappingProxyType
from typing import IO, Any

from keyfold.errors import Damaged
from keyfold.storage.entries import OtherEntry
from keyfold.storage.place import FoundFile, Place, local_path
from keyfold.storage.storage import storage_of


class DamagedError(Damaged):
    """A file is not the JSON object that it should be: the disk has failed, or somebody has edited it."""


def read_json(path: Place, remedy: str = "", fields: Mapping[str, type] = MappingProxyType({})) -> dict[str, Any]:
    """Read a small JSON object.

    Args:
        path: the file.
        remedy: what can be done other than restoring it, for the error message.
        fields: the types of values that it must have, by name.

    Raises:
        DamagedError: the file is not a JSON object, or lacks a field.
    """
    # Bytes that are not UTF-8 are damage like any other: they must not end in a UnicodeDecodeError, which names no file.
    return _as_object(path, path.read_text(encoding="utf-8", errors="replace"), remedy, fields)


def read_with_tag(path: Place) -> tuple[bytes, str]:
    """Read a file's content and its tag for `replace`; on a disk the tag is empty.

    Raises:
        FileNotFoundError: the file is missing.
    """
    return storage_of(path).read_with_tag(path)


def write_json(path: Place, content: dict[str, Any]) -> None:
    """Write a small JSON object; see `write_durably`."""
    write_durably(path, _of_object(content))


def write_json_once(path: Place, content: dict[str, Any]) -> None:
    """Write a small JSON object that never changes; see `write_once`."""
    write_once(path, _of_object(content))


def write_durably(path: Place, content: bytes) -> None:
    """Write a file atomically and durably: readers see the old content or the new, also after a power cut.

    Raises:
        OSError: the disk is full or fails; the old file was not changed, and no temporary file is left.
        KeyfoldError: this run has lost its lease.
    """
    storage_of(path).write_durably(path, content)


def write_once(path: Place, content: bytes) -> None:
    """Write a file that never changes, durably.

    Raises:
        OSError: as `write_durably`.
        KeyfoldError: in a store, another run has written it with other content; it was not changed.
    """
    storage_of(path).replace(path, content, "")


def replace(path: Place, content: bytes, tag: str) -> None:
    """Replace the file that has a tag, durably; without a tag, create it.

    Args:
        content: its new content. Finding this content is a success too: the answer to an earlier write may have been lost.
        tag: the tag as read. Not used on a disk, where a run holds its lock as long as it lives.

    Raises:
        OSError: as `write_durably`.
        KeyfoldError: in a store, another run has written it since; it was not changed.
    """
    storage_of(path).replace(path, content, tag)


def tag_of(path: Place) -> str:
    """Return a file's current tag, for `replace`; empty if it is missing."""
    return storage_of(path).tag_of(path)


def write_whole(path: Place, content: bytes) -> None:
    """Write a file atomically but not durably: for content that can be made again after a power cut.

    Raises:
        OSError: as `write_durably`.
    """
    storage_of(path).write_whole(path, content)


def new_file(path: Place, named: Callable[[IO[bytes]], str] | None = None) -> AbstractContextManager[IO[bytes]]:
    """Open a new file for writing and reading. It is durable when the context ends, and removed on an error.

    The file is visible while it is written, so its name must be one that no reader looks for.

    Args:
        path: the new file.
        named: returns its final name, in the same folder, from the written content.

    Raises:
        OSError: the disk is full or fails.
    """
    return storage_of(path).new_file(path, named)


def open_for_reading(path: Place, read_ahead: int = 0, within: Place | None = None) -> IO[bytes]:
    """Open a file for reading. From a store, only the ranges that are read are fetched.

    Args:
        read_ahead: bytes that are fetched from a store at a time, for callers that read large pieces in order.
        within: a folder that no link may lead out of, also if one is put there meanwhile; None if links may lead anywhere.

    Raises:
        OSError: it cannot be opened, or is a pipe, a device or another kind of entry, which is never waited for; or a link
            leads out of `within`.
    """
    return storage_of(path).open(path, read_ahead, within)


def open_found(file: FoundFile) -> IO[bytes]:
    """Open a file that `files_below` has yielded, without following a link that has taken its place, or a folder's on the way.

    Raises:
        OSError: as `open_for_reading`, or there is a link.
    """
    return storage_of(file.path).open_found(file)


def fingerprint(path: Place, within: Place) -> str:
    """Return a digest of a file's whole content (XXH3, 128 bits), or the store's tag of an object.

    Args:
        within: a folder that no link may lead out of.

    Raises:
        OSError: the file cannot be read, is no longer a regular file, or a link leads out of `within`.
    """
    return storage_of(path).fingerprint(path, within)


def second_name(path: Place, other: Place) -> None:
    """Hard-link a file, or copy it within a store. Removing one does not remove the other.

    Raises:
        OSError: the link cannot be made, for example because the two are on different disks.
        KeyfoldError: the two are not on a disk, or not in the same store.
    """
    storage_of(path).second_name(path, other)


def move_tree(folder: Place, to: Place, last: str) -> None:
    """Move a folder to a path that does not exist.

    Atomic on a disk. In a bucket, the store copies file by file: the file or folder named `last` is copied last and removed
    first, so a folder that has all of it is complete.

    Raises:
        OSError: the disk fails.
        KeyfoldError: this run has lost its lease.
    """
    storage_of(folder).move_tree(folder, to, last)


def move_file(path: Place, to: Place) -> None:
    """Move a file to a path that does not exist. In a bucket it is in both for a moment.

    Raises:
        OSError: the disk fails.
        KeyfoldError: this run has lost its lease.
    """
    storage_of(path).move_file(path, to)


def remove_tree(folder: Place, *, missing_ok: bool = False) -> None:
    """Remove a folder and everything in it.

    Args:
        missing_ok: whether the folder, or files in it, may be missing already.

    Raises:
        OSError: the folder cannot be removed.
        KeyfoldError: this run has lost its lease.
    """
    storage_of(folder).remove_tree(folder, missing_ok=missing_ok)


def files_below(folder: Place, others: Callable[[OtherEntry], None] | None = None) -> Iterator[FoundFile]:
    """Yield all regular files below a folder, at any depth; files removed meanwhile may be left out. Links are not followed.

    Args:
        folder: the folder, which may be missing.
        others: called for each link, pipe, socket and device, and for each folder that cannot be read.

    Raises:
        OSError: the folder, or one below it for which there is no `others`, cannot be read.
    """
    return storage_of(folder).files_below(folder, others)


def names_in(folder: Place) -> list[str]:
    """Return the names of the files and folders in a folder, in any order.

    Raises:
        FileNotFoundError: there is no such folder.
    """
    # No `Path` of each name on a disk: a run lists its journal ten times, and a log may have thousands of entries.
    local = local_path(folder)
    return [path.name for path in folder.iterdir()] if local is None else os.listdir(local)


def sync_file(path: Place) -> None:
    """Sync a file that another program has written."""
    storage_of(path).sync_file(path)


def sync_folder(folder: Place) -> None:
    """Sync a folder, so that new and renamed files in it are durable."""
    storage_of(folder).sync_folder(folder)


def sweep(folder: Place) -> None:
    """Remove temporary files of killed processes. Call it only under the folder's lock."""
    storage_of(folder).sweep(folder)


def exclusive(folder: Place, what: str, *, patience: timedelta = timedelta(0)) -> AbstractContextManager[Any]:
    """Hold a folder's lock, so that two runs never share a journal.

    Args:
        folder: the folder that the run writes to.
        what: a name for the run, for the error message.
        patience: how long to wait for another run to end.

    Raises:
        KeyfoldError: another run holds the lock, or the folder is not writable.
    """
    return storage_of(folder).exclusive(folder, what, patience)


def is_held(folder: Place) -> bool:
    """Whether a run holds a folder's lock now."""
    return storage_of(folder).is_held(folder)


def _as_object(path: Place, text: str, remedy: str, fields: Mapping[str, type]) -> dict[str, Any]:
    what_to_do = "restore it from a backup" + (f", or {remedy}" if remedy else "")
    try:
        content = json.loads(text)
    except ValueError as error:
        raise DamagedError(f"{path} is damaged ({error}); {what_to_do}") from error
    if not isinstance(content, dict):
        raise DamagedError(f"{path} is damaged (it is not a JSON object); {what_to_do}")
    if lacking := [name for name, kind in fields.items() if not isinstance(content.get(name), kind)]:
        raise DamagedError(f"{path} is damaged (it has no valid {', '.join(lacking)}); {what_to_do}")
    return content


def _of_object(content: dict[str, Any]) -> bytes:
    # Sorted, so that equal objects are equal bytes: writing the same content again must count as a success (`replace`).
    return json.dumps(content, indent=1, sort_keys=True).encode()
