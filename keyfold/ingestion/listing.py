"""Declare landings, list the files of a landing folder, and decide which of them are complete.

Names that begin with a dot or an underscore are ignored, so a producer that writes under such a name and renames the file at
the end is always safe. Of other files:

- If the stream has done markers, a file is complete once `NAME.done` or `_SUCCESS` is in its folder.
- Otherwise it is complete once it has not changed for the settling time.

Change times come from the file server and are compared with this machine's clock. If the clocks differ by more than the
settling time, or a mount caches times for longer (NFS: `acregmax`, a minute), use a longer settling time.

Objects in a bucket are always complete, and the store's tag identifies their content.

Links that lead out of the folder are not followed: a user who may write to the folder must not read other files through it. They
are listed as refused, and so are links that lead nowhere, in a circle or where this user may not go. Readers check once more
while they open a file (`open_for_reading`), since a link may take its place at any time.
"""

import errno
import os
from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from operator import attrgetter
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import NamedTuple

from keyfold.errors import Misconfigured
from keyfold.ingestion.kafka.topic import KafkaTopic
from keyfold.lakehouse import Lakehouse
from keyfold.storage.entries import is_below
from keyfold.storage.place import Place, is_in_bucket, path_below, to_place
from keyfold.storage.store_failures import StoreError
from keyfold.times import micros

SETTLE = timedelta(seconds=5)
"""The default settling time. A file that changed more recently may not be complete."""

DONE = ".done"
_SUCCESS = "_SUCCESS"
_EFFECTIVE = os.access in os.supports_effective_ids
_NOT_UTF_8 = "its name is not UTF-8; rename it, and it is read"


class LandedFile(NamedTuple):
    r"""A file in a landing folder.

    Attributes:
        path: relative to the landing folder. Bytes that are not UTF-8 are written as `\xNN`. Such a path ends in a slash, which
            distinguishes it from a file whose name contains `\xNN` literally.
        size: bytes.
        modified_at: modification time in nanoseconds since 1970, to detect that the file was written again.
        changed_at: inode change time in nanoseconds since 1970, or the marker's if that is later. The modification time
            would not do, since `cp -p`, `mv` and rsync keep old ones.
        marked: whether there is a done marker; None if the stream does not use them.
        refused: why it must not be read; None if it may.
        tag: the store's tag of an object's content; empty for a file.
    """

    path: str
    size: int
    modified_at: int
    changed_at: int
    marked: bool | None = None
    refused: str | None = None
    tag: str = ""

    def is_whole(self, now: int, settle: timedelta = SETTLE) -> bool:
        """Whether the file is complete.

        Args:
            now: nanoseconds since 1970, taken before the folder was listed. Files that arrive during the listing then wait
                for the next one, which also sees all files that arrived before them.
            settle: the settling time, for files without markers.
        """
        if self.marked is False:
            return False
        if self.tag:
            return True
        return self.changed_at <= now - (0 if self.marked else micros(settle) * 1_000)


class Listing(NamedTuple):
    """The files of a landing folder that were asked for.

    Attributes:
        files: the files.
        unreadable: folders and files below it that could not be listed, looked at or opened, by path, each with the reason.
    """

    files: tuple[LandedFile, ...]
    unreadable: Mapping[str, str] = MappingProxyType({})

    @property
    def faults(self) -> dict[str, str]:
        """What ingest cannot read, by path, each with the reason: links that are refused, and all that is unreadable."""
        return {file.path: file.refused for file in self.files if file.refused} | {
            path: f"cannot be read ({reason})" for path, reason in self.unreadable.items()
        }


def list_files(
    folder: Place, *, done_marker: bool = False, read_before: Container[tuple[str, int, int, int]] = frozenset()
) -> Listing:
    """List the files below a landing folder, in the order of their paths.

    Args:
        folder: the landing folder.
        done_marker: whether its files have done markers.
        read_before: path, size, modification and change time of files of a disk that are left out.

    Raises:
        OSError: the folder is missing, not a folder, or not readable.
    """
    if (path := folder.local_path) is None:
        return Listing(tuple(_objects(folder, done_marker)))
    top = os.path.realpath(path)
    files: list[LandedFile] = []
    unreadable: dict[str, str] = {}
    waiting = [top]
    while waiting:
        parent = waiting.pop()
        try:
            landed, folders, faults = _files(top, parent, done_marker, read_before)
        except OSError as error:
            if parent == top:
                raise
            # A folder that was removed since it was listed is not an error.
            if not isinstance(error, FileNotFoundError):
                unreadable[_readable(os.path.relpath(parent, top))[0]] = str(error.strerror)
            continue
        files += landed
        waiting += folders
        unreadable |= faults
    return Listing(tuple(sorted(files, key=attrgetter("path"))), unreadable)


def cannot_be_read(folder: Place, error: OSError) -> Misconfigured:
    """Return the error for a landing folder that cannot be listed."""
    return Misconfigured(f"the landing folder {folder} cannot be read: {error.strerror or error}")


def refusal(folder: Place, path: str) -> str | None:
    """Say why a path below a landing folder must not be read; None if it may."""
    if (here := folder.local_path) is None:
        return None
    # What cannot be opened is the reader's to report.
    with suppress(OSError):
        return _leads_out(os.path.realpath(here), here / path)


def _fault_of_link(top: str, link: str) -> str | None:
    """Say why a link must not be followed; None if it may."""
    try:
        return _leads_out(top, link)
    except OSError as error:
        return f"the link cannot be followed: {error.strerror}"


def _leads_out(top: str, path: "str | os.PathLike[str]") -> str | None:
    # The system follows forty links at most, so that `realpath`, which calls itself for each, ends.
    os.stat(path)
    place = os.path.realpath(path)
    return None if is_below(place, top) else f"the link leads out of the landing folder, to {_readable(place)[0]}"


def _files(
    top: str, parent: str, done_marker: bool, read_before: Container[tuple[str, int, int, int]]
) -> tuple[list[LandedFile], list[str], dict[str, str]]:
    """Return the files of a folder that are not known, its folders, and what cannot be looked at.

    Most of a million files are known: see each once.
    """
    files, folders, faults = list[LandedFile](), list[str](), dict[str, str]()
    below = "" if parent == top else os.path.relpath(parent, top) + "/"
    with os.scandir(parent) as listed:
        entries = list(listed)
    marked = {entry.name: entry for entry in entries} if done_marker else {}
    everything_done = _changed_at(marked.get(_SUCCESS))
    for entry in entries:
        name = entry.name
        if _is_hidden(name) or (done_marker and name.endswith(DONE) and not entry.is_dir(follow_symlinks=False)):
            continue
        path, refused = _readable(below + name)
        try:
            if entry.is_symlink():
                if fault := _fault_of_link(top, entry.path):
                    # Reported and not skipped silently, so that users can find out why the file is missing.
                    link = entry.stat(follow_symlinks=False)
                    files.append(LandedFile(path, link.st_size, link.st_mtime_ns, link.st_ctime_ns, None, fault))
                    continue
            # Links to folders inside are skipped, since their files are found at their own paths.
            elif entry.is_dir():
                folders.append(entry.path)
            if not entry.is_file():
                continue
            status = entry.stat()
        except (FileNotFoundError, NotADirectoryError):  # renamed or removed since it was listed
            continue
        except PermissionError:
            raise  # the folder may be listed and not entered
        except OSError as error:
            faults[path] = str(error.strerror)
            continue
        changed_at, is_marked = status.st_ctime_ns, None
        if done_marker:
            markers = [at for at in (everything_done, _changed_at(marked.get(name + DONE))) if at is not None]
            changed_at, is_marked = max(changed_at, min(markers, default=0)), bool(markers)
        version = (path, status.st_size, status.st_mtime_ns, changed_at)
        if version in read_before:
            continue
        # A mode is mended without a change to the file, so that it waits, and is not refused.
        if refused is None and _is_denied(entry.path):
            faults[path] = os.strerror(errno.EACCES)
            continue
        files.append(LandedFile(*version, is_marked, refused))
    return files, folders, faults


def _is_denied(path: str) -> bool:
    # Nobody may read a file that was removed since it was listed either: it is no fault.
    return not os.access(path, os.R_OK, effective_ids=_EFFECTIVE) and os.path.exists(path)


def is_as_admitted(landing: Place, file: Place, size: int, times: tuple[int, int], digest: str) -> bool:
    """Whether a file has not changed since it was admitted.

    Args:
        landing: the landing folder, which its content must be in.
        file: the file.
        size: its size then, in bytes.
        times: its modification time and inode change time then, in nanoseconds since 1970.
        digest: its `fingerprint` then.
    """
    try:
        if (path := file.local_path) is None:
            return file.fingerprint(landing) == digest
        status = os.stat(path)
        if (status.st_size, status.st_mtime_ns, status.st_ctime_ns) == (size, *times):
            return True
        # A copied or touched file has other times but the same content.
        return status.st_size == size and file.fingerprint(landing) == digest
    except FileNotFoundError:
        return False
    except StoreError:
        raise
    except OSError:
        return True  # unreadable: the reader will report why


def _objects(folder: Place, done_marker: bool) -> Iterator[LandedFile]:
    objects = {PurePosixPath(file.below): file for file in folder.files_below()}
    for path, file in sorted(objects.items()):
        if any(map(_is_hidden, path.parts)) or (done_marker and path.name.endswith(DONE)):
            continue
        markers = (path.with_name(_SUCCESS), path.with_name(path.name + DONE))
        marked = any(marker in objects for marker in markers) if done_marker else None
        # If a store gives no tag, size and time are used instead.
        tag = file.tag or f"{file.size}-{file.changed_at}"
        yield LandedFile(str(path), file.size, file.changed_at, file.changed_at, marked, None, tag)


def _readable(path: str) -> tuple[str, str | None]:
    """Return a path as valid UTF-8; and if the original is not, why its file must not be read."""
    if path.isascii():
        return path, None
    content = os.fsencode(path)
    try:
        return content.decode(), None
    except UnicodeDecodeError:
        return content.decode(errors="backslashreplace") + "/", _NOT_UTF_8


def _changed_at(entry: "os.DirEntry[str] | None") -> int | None:
    try:
        return None if entry is None else entry.stat().st_ctime_ns
    except OSError:  # gone, or a link to nowhere, which marks nothing
        return None


def _is_hidden(name: str) -> bool:
    """Whether a name is ignored, as in Spark's file source. `_year=2026` is not: it is the folder of a partition."""
    return (name[0] in "._" and (name[0] == "." or "=" not in name)) or name.endswith("._COPYING_")


Landing = Place | KafkaTopic
"""A source of events: a folder of files, on a disk or in a bucket, or a Kafka topic."""


def source_name(lakehouse: Lakehouse, landing: Place) -> str:
    """Return the name of a landing folder: its path below the lakehouse directory, which may be moved, or its full path."""
    inside = path_below(landing, lakehouse.home)
    return landing.as_posix() if inside is None else inside.as_posix()


def source_place(lakehouse: Lakehouse, source: str) -> Place:
    """Return the landing folder of a `source_name`."""
    return to_place(source) if source.startswith("/") or is_in_bucket(source) else lakehouse.home / source
