"""What a path can do beyond what `pathlib` has, on a disk (`DiskPath`) as in a bucket (`BucketPath`): atomic writes, and locks.

On a disk, a file is written under a temporary name, synced and renamed, under its folder's lock. An object store writes
objects whole, but a lease can expire while a run is paused. So each write checks the lease first, and files
that must not be overwritten by a paused run are written conditionally: only if new, or unchanged since they were read. A lock on a
disk is a kernel lock, released when its process ends; in a store it is a lease (`keyfold.storage.lease`).
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any

from keyfold.errors import Damaged

if TYPE_CHECKING:
    from keyfold.storage.disk_path import DiskPath
    from keyfold.storage.entries import ListedFile, OtherEntry
    from keyfold.storage.place import Place


class DamagedError(Damaged):
    """A file is not the JSON object that it should be: the disk has failed, or somebody has edited it."""


class StoragePath(ABC):
    """The operations of a path, in addition to those of `pathlib.Path`."""

    __slots__ = ()

    @property
    @abstractmethod
    def local_path(self) -> "DiskPath | None":
        """The path by which programs of this machine open it; None where none leads there."""

    @property
    @abstractmethod
    def catalog_name(self) -> tuple[str, str]:
        """Its namespace and name in a catalog, by the conventions of OpenLineage."""

    @abstractmethod
    def as_source(self) -> Path | str:
        """Return it as Polars and Delta's library take it: a path, or a URL."""

    @abstractmethod
    def read_text(self, encoding: str, errors: str) -> str: ...

    def read_json(self, remedy: str = "", fields: Mapping[str, type] = MappingProxyType({})) -> dict[str, Any]:
        """Read a small JSON object.

        Args:
            remedy: what can be done other than restoring it, for the error message.
            fields: the types of values that it must have, by name.

        Raises:
            DamagedError: the file is not a JSON object, or lacks a field.
        """
        what_to_do = "restore it from a backup" + (f", or {remedy}" if remedy else "")
        try:
            # Bytes that are not UTF-8 are damage like any other: they must not end in a UnicodeDecodeError, which names no file.
            content = json.loads(self.read_text(encoding="utf-8", errors="replace"))
        except ValueError as error:
            raise DamagedError(f"{self} is damaged ({error}); {what_to_do}") from error
        if not isinstance(content, dict):
            raise DamagedError(f"{self} is damaged (it is not a JSON object); {what_to_do}")
        if lacking := [name for name, kind in fields.items() if not isinstance(content.get(name), kind)]:
            raise DamagedError(f"{self} is damaged (it has no valid {', '.join(lacking)}); {what_to_do}")
        return content

    @abstractmethod
    def read_with_tag(self) -> tuple[bytes, str]:
        """Read the content, and its tag for `replace_content`; on a disk the tag is empty.

        Raises:
            FileNotFoundError: the file is missing.
        """

    @abstractmethod
    def tag(self) -> str:
        """Return the file's current tag, for `replace_content`; empty if it is missing."""

    @abstractmethod
    def fingerprint(self, within: "Place") -> str:
        """Return a digest of the whole content (XXH3, 128 bits), or the store's tag of an object.

        Args:
            within: a folder that no link may lead out of.

        Raises:
            OSError: the file cannot be read, is no longer a regular file, or a link leads out of `within`.
        """

    @abstractmethod
    def open_for_reading(self, read_ahead: int = 0, within: "Place | None" = None) -> IO[bytes]:
        """Open the file for reading. From a store, only the ranges that are read are fetched.

        Args:
            read_ahead: bytes that are fetched from a store at a time, for callers that read large pieces in order.
            within: a folder that no link may lead out of, also if one is put there meanwhile; None if links may lead anywhere.

        Raises:
            OSError: it cannot be opened, or is a pipe, a device or another kind of entry, which is never waited for; or a link
                leads out of `within`.
        """

    def write_json(self, content: dict[str, Any], *, once: bool = False) -> None:
        """Write a small JSON object durably.

        Args:
            content: the object.
            once: whether the file never changes (`write_once`); otherwise it is overwritten (`write_durably`).
        """
        # Sorted, so that equal objects are equal bytes: writing the same content again must count as a success.
        text = json.dumps(content, indent=1, sort_keys=True).encode()
        self.write_once(text) if once else self.write_durably(text)

    @abstractmethod
    def write_durably(self, content: bytes) -> None:
        """Write the file atomically and durably: readers see the old content or the new, also after a power cut.

        Raises:
            OSError: the disk is full or fails; the old file was not changed, and no temporary file is left.
            KeyfoldError: this run has lost its lease.
        """

    @abstractmethod
    def replace_content(self, content: bytes, tag: str) -> None:
        """Replace the file that has a tag, durably; without a tag, create it.

        Args:
            content: its new content. Finding this content is a success too: the answer to an earlier write may have been lost.
            tag: the tag as read. Not used on a disk, where a run holds its lock as long as it lives.

        Raises:
            OSError: as `write_durably`.
            KeyfoldError: in a store, another run has written it since; it was not changed.
        """

    def write_once(self, content: bytes) -> None:
        """Write a file that never changes, durably.

        Raises:
            OSError: as `write_durably`.
            KeyfoldError: in a store, another run has written it with other content; it was not changed.
        """
        self.replace_content(content, "")

    @abstractmethod
    def new_file(self, named: Callable[[IO[bytes]], str] | None = None) -> AbstractContextManager[IO[bytes]]:
        """Open a new file for writing and reading. It is durable when the context ends, and removed on an error.

        The file is visible while it is written, so its name must be one that no reader looks for.

        Args:
            named: returns its final name, in the same folder, from the written content.

        Raises:
            OSError: the disk is full or fails.
        """

    @abstractmethod
    def add_name(self, other: "Place") -> None:
        """Hard-link the file, or copy it within a store. Removing one does not remove the other.

        Raises:
            OSError: the link cannot be made, for example because the two are on different disks.
            KeyfoldError: the two are not on a disk, or not in the same store.
        """

    @abstractmethod
    def move_file(self, to: "Place") -> None:
        """Move a file to a path that does not exist. In a bucket it is in both for a moment.

        Raises:
            OSError: the disk fails.
            KeyfoldError: this run has lost its lease, or the two are not on a disk, or not in the same store.
        """

    @abstractmethod
    def move_tree(self, to: "Place", last: str) -> None:
        """Move a folder to a path that does not exist.

        Atomic on a disk. In a bucket, the store copies file by file: the file or folder named `last` is copied last and removed
        first, so a folder that has all of it is complete.

        Raises:
            OSError: the disk fails.
            KeyfoldError: as `move_file`.
        """

    @abstractmethod
    def remove_tree(self, *, missing_ok: bool = False) -> None:
        """Remove a folder and everything in it.

        Args:
            missing_ok: whether the folder, or files in it, may be missing already.

        Raises:
            OSError: the folder cannot be removed.
            KeyfoldError: this run has lost its lease.
        """

    @abstractmethod
    def names(self) -> list[str]:
        """Return the names of the files and folders in a folder, in any order.

        Raises:
            FileNotFoundError: there is no such folder, on a disk.
        """

    @abstractmethod
    def files_below(self, others: "Callable[[OtherEntry], None] | None" = None) -> "Iterator[ListedFile]":
        """Yield all regular files below a folder, at any depth; those removed meanwhile may be left out. Links are not followed.

        The folder may be missing.

        Args:
            others: called for each link, pipe, socket and device, and for each folder that cannot be read.

        Raises:
            OSError: the folder, or one below it for which there is no `others`, cannot be read.
        """

    @abstractmethod
    def listed(self) -> "ListedFile":
        """Return the entry of a file as a listing of its folder would have it.

        Raises:
            FileNotFoundError: there is no such file.
        """

    @abstractmethod
    def open_below(self, below: str) -> IO[bytes]:
        """Open a file below this folder; see `ListedFile.open`."""

    @abstractmethod
    def sync_file(self) -> None:
        """Sync a file that another program has written."""

    @abstractmethod
    def sync_folder(self) -> None:
        """Sync a folder, so that new and renamed files in it are durable."""

    @abstractmethod
    def sweep(self) -> None:
        """Remove temporary files of killed processes from a folder. Call it only under the folder's lock."""

    @abstractmethod
    def exclusive(self, run: str, *, patience: timedelta = timedelta(0)) -> AbstractContextManager[Any]:
        """Hold a folder's lock, so that two runs never share a journal.

        Args:
            run: a name for the run, for the error message.
            patience: how long to wait for another run to end.

        Raises:
            KeyfoldError: another run holds the lock, or the folder is not writable.
        """

    @abstractmethod
    def is_held(self) -> bool:
        """Whether a run holds a folder's lock now."""
