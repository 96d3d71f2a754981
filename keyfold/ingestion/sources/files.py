"""Landing folders: which files are there, and which of them are whole.

A producer that writes under a name that begins with a dot or an underscore and renames at the end is always safe: such
names are not seen. Of other files,

- where the stream has done-markers, a file is whole once `NAME.done` or `_SUCCESS` stands in its folder;
- else it is whole once its size and content have stayed as they are for a while, the settling time.

Change times are the file server's and are compared with this machine's clock: one that lags behind by more than the
settling time, or a mount that caches them for longer (NFS: `acregmax`, a minute), wants a longer settling time.

In a bucket an object is there once it is whole, so that none is waited for; and the store's own tag of its content tells
whether it is what it was.

Links that lead out of the folder are not followed: whoever may write there may read no more than what is there.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import PurePath
from stat import S_ISREG
from typing import IO

import xxhash

from keyfold.storage.place import Place
from keyfold.storage.remote_path import ObjectStat, RemotePath, StoreError
from keyfold.times import micros

SETTLE = timedelta(seconds=5)
"""A file that changed less than this ago may still be being written."""

DONE = ".done"
_SUCCESS = "_SUCCESS"
_READ_AT_ONCE = 4 << 20
_NOT_UTF_8 = "its name is not UTF-8; rename it, and it is read"


@dataclass(frozen=True)
class LandedFile:
    r"""A file in a landing folder.

    Attributes:
        path: below the landing folder. Where it is not UTF-8, the bytes that are not are written as `\xNN`, and a slash
            at the end, which no file's path has, keeps it apart from a file whose name is written so.
        size: bytes.
        modified_at: its own modification time, nanoseconds since 1970: what tells that it was written again.
        changed_at: inode change time in nanoseconds since 1970; the marker's where that is later. A modification time
            would not do: `cp -p`, `mv` and rsync keep old ones, and whoever goes by them never sees such files.
        marked: whether a done-marker is there; None where the stream has none.
        refused: why it must not be read; None where it may.
        tag: of an object's content, by the store; empty for a file.
    """

    path: str
    size: int
    modified_at: int
    changed_at: int
    marked: bool | None = None
    refused: str | None = None
    tag: str = ""

    def is_whole(self, now: int, settle: timedelta = SETTLE) -> bool:
        """Whether nobody writes it any more.

        Args:
            now: nanoseconds since 1970, taken before the folder was listed: what came meanwhile waits for the next
                time, in which whatever came before it is seen as well.
            settle: how long a file without a marker must have stayed as it is.
        """
        if self.marked is False:
            return False
        if self.tag:
            return True
        return self.changed_at <= now - (0 if self.marked else micros(settle) * 1_000)


@dataclass(frozen=True)
class Listing:
    """What is in a landing folder; `unreadable` are the folders below it that could not be listed."""

    files: tuple[LandedFile, ...]
    unreadable: tuple[str, ...] = ()


def list_files(folder: Place, *, done_marker: bool = False) -> Listing:
    """List the files below a folder that ingest reads, in order of their paths.

    Args:
        folder: the landing folder.
        done_marker: whether its files have done-markers.

    Raises:
        OSError: the folder itself is missing, no folder, or not to be read.
    """
    if isinstance(folder, RemotePath):
        return Listing(tuple(_objects(folder, done_marker)))
    top = os.path.realpath(folder)
    files: list[LandedFile] = []
    unreadable: list[str] = []
    waiting = [top]
    while waiting:
        parent = waiting.pop()
        try:
            with os.scandir(parent) as listed:
                entries = {entry.name: entry for entry in listed}
            below = "" if parent == top else os.path.relpath(parent, top) + "/"
            found = list(_files(top, below, entries, done_marker))
            # A link to a folder within is passed over: its files are found where they are.
            folders = [
                entry.path
                for name, entry in entries.items()
                if not _is_hidden(name) and entry.is_dir(follow_symlinks=False)
            ]
        except OSError as error:
            if parent == top:
                raise
            # Removed since it was listed: there is nothing to read, and nothing to say.
            if not isinstance(error, FileNotFoundError):
                unreadable.append(_readable(parent)[0])
            continue
        files += found
        waiting += folders
    return Listing(tuple(sorted(files, key=lambda file: file.path)), tuple(sorted(unreadable)))


def refusal(folder: Place, path: str) -> str | None:
    """Why a path below a landing folder must not be read; None where it may."""
    if isinstance(folder, RemotePath):
        return None
    place, top = os.path.realpath(folder / path), os.path.realpath(folder)
    return None if _is_below(place, top) else f"the link leads out of the landing folder, to {_readable(place)[0]}"


def fingerprint(file: Place) -> str:
    """A digest of a file's content (XXH3, 128 bits); of an object, the store's tag.

    All of it is read: a change in the middle that keeps the size is a change too.

    Raises:
        OSError: it cannot be read, or is no regular file any more.
    """
    if isinstance(file, RemotePath):
        return file.stat().e_tag or ""
    # Without waiting: a pipe that has taken the file's place would keep whoever opens it for ever.
    with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0) as opened:
        if not S_ISREG(os.fstat(opened.fileno()).st_mode):
            raise OSError(None, f"{file} is no regular file")
        return _digest_of_content(opened)


def _digest_of_content(opened: IO[bytes]) -> str:
    digest = xxhash.xxh3_128()
    while part := opened.read(_READ_AT_ONCE):
        digest.update(part)
    return digest.hexdigest()


def _files(top: str, below: str, entries: dict[str, "os.DirEntry[str]"], done_marker: bool) -> Iterator[LandedFile]:
    everything_done = _changed_at(entries.get(_SUCCESS)) if done_marker else None
    for name, entry in entries.items():
        if _is_hidden(name) or (done_marker and name.endswith(DONE)):
            continue
        path, refused = _readable(below + name)
        try:
            if entry.is_symlink() and not _is_below(place := os.path.realpath(entry.path), top):
                if entry.is_file() or entry.is_dir():
                    # Told and not only passed over: a file that vanishes without a word is looked for in vain.
                    link = entry.stat(follow_symlinks=False)
                    refused = f"the link leads out of the landing folder, to {_readable(place)[0]}"
                    yield LandedFile(path, link.st_size, link.st_mtime_ns, link.st_ctime_ns, None, refused)
                continue
            if not entry.is_file():
                continue
            found = entry.stat()
        except FileNotFoundError:  # renamed or removed since it was listed
            continue
        if not done_marker:
            yield LandedFile(path, found.st_size, found.st_mtime_ns, found.st_ctime_ns, None, refused)
            continue
        markers = [at for at in (everything_done, _changed_at(entries.get(name + DONE))) if at is not None]
        changed_at = max(found.st_ctime_ns, min(markers, default=0))
        yield LandedFile(path, found.st_size, found.st_mtime_ns, changed_at, bool(markers), refused)


def is_as_admitted(file: Place, size: int, times: tuple[int, int], digest: str) -> bool:
    """Whether a file is what it was when it was admitted.

    Args:
        file: which.
        size: bytes.
        times: its own modification time and that of its inode, nanoseconds since 1970.
        digest: its `fingerprint`.
    """
    try:
        if isinstance(file, RemotePath):
            return fingerprint(file) == digest
        found = os.stat(file)
        if (found.st_size, found.st_mtime_ns, found.st_ctime_ns) == (size, *times):
            return True
        # Copied or touched: other times, the same content.
        return found.st_size == size and fingerprint(file) == digest
    except FileNotFoundError:
        return False
    except StoreError:
        raise
    except OSError:
        return True


def _objects(folder: RemotePath, done_marker: bool) -> Iterator[LandedFile]:
    found: dict[PurePath, ObjectStat] = {path.relative_to(folder): stat for path, stat in folder.below()}
    for path, stat in sorted(found.items()):
        if any(map(_is_hidden, path.parts)) or (done_marker and path.name.endswith(DONE)):
            continue
        markers = (path.with_name(_SUCCESS), path.with_name(path.name + DONE))
        marked = any(marker in found for marker in markers) if done_marker else None
        # A store gives every object a tag; one that gives none has its times in its place.
        tag = stat.e_tag or f"{stat.st_size}-{stat.st_mtime_ns}"
        yield LandedFile(str(path), stat.st_size, stat.st_mtime_ns, stat.st_mtime_ns, marked, None, tag)


def _readable(path: str) -> tuple[str, str | None]:
    """A path as UTF-8 can hold it, and why its file must not be read, where it is not UTF-8."""
    content = os.fsencode(path)
    try:
        return content.decode(), None
    except UnicodeDecodeError:
        return content.decode(errors="backslashreplace") + "/", _NOT_UTF_8


def _is_below(place: str, top: str) -> bool:
    return place == top or place.startswith(top.rstrip("/") + "/")


def _changed_at(entry: "os.DirEntry[str] | None") -> int | None:
    try:
        return None if entry is None else entry.stat().st_ctime_ns
    except FileNotFoundError:
        return None


def _is_hidden(name: str) -> bool:
    """As Spark's file source has it: `_year=2026` is a partition's folder."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")
