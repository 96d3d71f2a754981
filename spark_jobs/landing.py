"""Landing folders: which files are there, and which of them are whole.

A producer that writes under a name that begins with a dot or an underscore and renames at the end is always safe: such
names are not seen. Of other files,

- where the stream has done-markers, a file is whole once `NAME.done` or `_SUCCESS` stands in its folder;
- else it is whole once its size and content have stayed as they are for a while, the settling time.

Change times are the file server's and are compared with this machine's clock: one that lags behind by more than the
settling time, or a mount that caches them for longer (NFS: `acregmax`, a minute), wants a longer settling time.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from spark_jobs.microseconds import micros

SETTLE = timedelta(seconds=5)
"""A file that changed less than this ago may still be being written."""

DONE = ".done"
_SUCCESS = "_SUCCESS"


@dataclass(frozen=True)
class LandedFile:
    """A file in a landing folder.

    Attributes:
        path: where it is.
        size: bytes.
        changed_at: inode change time in nanoseconds since 1970; the marker's where that is later. A modification time
            would not do: `cp -p`, `mv` and rsync keep old ones, and whoever goes by them never sees such files.
        marked: whether a done-marker is there; None where the stream has none.
    """

    path: str
    size: int
    changed_at: int
    marked: bool | None = None

    def is_whole(self, now: int, settle: timedelta = SETTLE) -> bool:
        """Whether nobody writes it any more.

        Args:
            now: nanoseconds since 1970, taken before the folder was looked at: what came during the look waits for the
                next one, in which whatever came before it is seen as well.
            settle: how long a file without a marker must have stayed as it is.
        """
        if self.marked is False:
            return False
        return self.changed_at <= now - (0 if self.marked else micros(settle) * 1_000)


@dataclass(frozen=True)
class Look:
    """What is in a landing folder; `unreadable` are the folders below it that could not be listed."""

    files: tuple[LandedFile, ...]
    unreadable: tuple[str, ...] = ()


def look(folder: Path, *, done_marker: bool = False) -> Look:
    """List the files below a folder that ingest reads, in order of their paths; links are followed.

    Args:
        folder: the landing folder.
        done_marker: whether its files have done-markers.

    Raises:
        OSError: the folder itself is missing, no folder, or not to be read.
    """
    files: list[LandedFile] = []
    unreadable: list[str] = []
    seen: set[tuple[int, int]] = set()
    waiting = [str(folder)]
    while waiting:
        parent = waiting.pop()
        try:
            place = os.stat(parent)
            if (place.st_dev, place.st_ino) in seen:  # a link to a folder that it is in
                continue
            seen.add((place.st_dev, place.st_ino))
            with os.scandir(parent) as listed:
                entries = {entry.name: entry for entry in listed}
            found = list(_files(entries, done_marker))
            folders = [entry.path for name, entry in entries.items() if not _is_hidden(name) and entry.is_dir()]
        except OSError as error:
            if parent == str(folder):
                raise
            if not isinstance(error, FileNotFoundError):
                unreadable.append(parent)
            continue
        files += found
        waiting += folders
    return Look(tuple(sorted(files, key=lambda file: file.path)), tuple(sorted(unreadable)))


def _files(entries: dict[str, "os.DirEntry[str]"], done_marker: bool) -> Iterator[LandedFile]:
    everything_done = _changed_at(entries.get(_SUCCESS)) if done_marker else None
    for name, entry in entries.items():
        if _is_hidden(name) or (done_marker and name.endswith(DONE)):
            continue
        try:
            if not entry.is_file():
                continue
            found = entry.stat()
        except FileNotFoundError:  # renamed or removed since it was listed
            continue
        if not done_marker:
            yield LandedFile(entry.path, found.st_size, found.st_ctime_ns)
            continue
        markers = [at for at in (everything_done, _changed_at(entries.get(name + DONE))) if at is not None]
        yield LandedFile(entry.path, found.st_size, max(found.st_ctime_ns, min(markers, default=0)), bool(markers))


def _changed_at(entry: "os.DirEntry[str] | None") -> int | None:
    try:
        return None if entry is None else entry.stat().st_ctime_ns
    except FileNotFoundError:
        return None


def _is_hidden(name: str) -> bool:
    """As Spark's file source has it: `_year=2026` is a partition's folder."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")
