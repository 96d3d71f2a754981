"""List and open the regular files of a folder, whatever else is in it.

A folder that others may write to can hold anything: a pipe, which blocks who opens it; a link that leads elsewhere, to itself or
nowhere; folders that are deeper than any call stack. Such an entry costs itself alone, also if it takes a file's place between the
listing and the opening. `open_below` follows no link. Both ways of opening what lies in such a folder rest on it: backups pass it
the paths that `files_in` lists, and ingest, through `open_within`, those that links lead to.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from stat import S_ISBLK, S_ISCHR, S_ISFIFO, S_ISLNK, S_ISREG, S_ISSOCK
from typing import IO, TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from keyfold.storage.disk_path import DiskPath
    from keyfold.storage.place import Place

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Non-blocking: opening a pipe would wait for a writer, perhaps for ever.
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC

_KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (S_ISLNK, "is a link"),
    (S_ISFIFO, "is a pipe"),
    (S_ISSOCK, "is a socket"),
    (S_ISCHR, "is a device"),
    (S_ISBLK, "is a device"),
)


class OtherEntry(NamedTuple):
    """An entry of a folder that is neither a file nor a folder which can be read.

    Attributes:
        path: its path.
        what: what it is, as the rest of a sentence.
        may_hold_files: whether files may be behind it that could not be read.
    """

    path: "DiskPath"
    what: str
    may_hold_files: bool


class ListedFile(NamedTuple):
    """A file below a folder.

    Attributes:
        folder: the listed folder, or the file itself.
        below: the path below the folder; empty for the file itself.
        size: in bytes.
        changed_at: time of its last change, in nanoseconds since 1970.
        tag: the store's tag (ETag) of its content; empty on a disk.
    """

    folder: "Place"
    below: str
    size: int
    changed_at: int
    tag: str = ""

    @property
    def path(self) -> "Place":
        """The file's path, made on demand, since there may be thousands of files."""
        return self.folder / self.below if self.below else self.folder

    def open(self) -> IO[bytes]:
        """Open the file without following a link that has taken its place, or a folder's on the way.

        Raises:
            OSError: it cannot be opened, or there is a link or another kind of entry.
        """
        return self.folder.open_below(self.below)


class NoRegularFileError(OSError):
    """What is at a file's path is none: a pipe, a device or a folder."""


def open_regular(path: Path, *, buffered: bool = True) -> IO[bytes]:
    """Open a regular file for reading; links are followed.

    Raises:
        NoRegularFileError: it is another kind of entry.
        OSError: it cannot be opened.
    """
    try:
        file = os.open(path, _FILE)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise NoRegularFileError(None, "is a socket, not a regular file", str(path)) from None
        raise
    return _checked(file, path, buffered=buffered)


def open_within(folder: Path, path: Path, *, buffered: bool = True) -> IO[bytes]:
    """Open a regular file that a path below a folder leads to; links are followed as long as they lead below the folder.

    The path that they lead to is opened without following any: so a link that is put there between the two leads nowhere.

    Raises:
        NoRegularFileError: a link leads out of the folder, or it is another kind of entry.
        OSError: it cannot be opened.
    """
    try:
        top, place = os.path.realpath(folder), os.path.realpath(path)
    except RecursionError:  # it calls itself for each link
        raise NoRegularFileError(None, "too many links lead to each other", str(path)) from None
    if not is_below(place, top):
        raise NoRegularFileError(None, "a link leads out of its folder", str(path))
    return open_below(Path(top), os.path.relpath(place, top), buffered=buffered)


def is_below(place: str, top: str) -> bool:
    """Whether a resolved path is that of a folder, or below it."""
    return place == top or place.startswith(top.rstrip("/") + "/")


def open_below(folder: Path, below: str, *, buffered: bool = False) -> IO[bytes]:
    """Open a regular file below a folder, by a path no part of which is a link, also if somebody puts one there meanwhile.

    Raises:
        NoRegularFileError: it is a link or another kind of entry, or a folder on the way is a link.
        OSError: it cannot be opened.
    """
    *folders, name = below.split("/") if below else [""]
    # The folder itself may be a link: its owner has made it.
    parent = os.open(folder if below else folder.parent, _FOLDER & ~os.O_NOFOLLOW)
    try:
        for part in folders:
            inner = os.open(part, _FOLDER, dir_fd=parent)
            os.close(parent)
            parent = inner
        file = os.open(name or folder.name, _FILE | os.O_NOFOLLOW, dir_fd=parent)
    except OSError as error:
        path = folder / below
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO):
            raise NoRegularFileError(None, "is not a regular file, or a link leads there", str(path)) from None
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        os.close(parent)
    return _checked(file, folder / below, buffered=buffered)


def files_in(folder: "DiskPath", others: Callable[[OtherEntry], None] | None = None) -> Iterator[ListedFile]:
    """Yield the regular files below a folder, at any depth. No link below it is followed; the folder itself may be one.

    Args:
        folder: the folder, which may be missing.
        others: called for each entry that is neither a file nor a folder that can be listed. Without it, those that are no
            folder are passed over.

    Raises:
        OSError: the folder cannot be listed, or, without `others`, one below it.
    """
    # A list and no recursion: folders may be nested deeper than Python calls functions.
    waiting = [""]
    while waiting:
        below = waiting.pop()
        parent = folder / below if below else folder
        try:
            entries = os.scandir(parent)
        except (FileNotFoundError, NotADirectoryError):
            continue  # removed since it was listed
        except OSError as error:
            if others is None or not below:
                raise
            others(OtherEntry(parent, f"cannot be read ({error.strerror})", may_hold_files=True))
            continue
        with entries:
            for entry in entries:
                path = below + entry.name
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(f"{path}/")
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    if others is None:
                        raise
                    others(OtherEntry(folder / path, f"cannot be read ({error.strerror})", may_hold_files=True))
                    continue
                if S_ISREG(status.st_mode):
                    yield ListedFile(folder, path, status.st_size, status.st_mtime_ns)
                elif others is not None:
                    others(OtherEntry(folder / path, _kind_of(status.st_mode), may_hold_files=False))


def folders_in(folder: Path) -> Iterator[Path]:
    """Yield a folder and those below it, at any depth; those that cannot be listed too, but not what is in them."""
    waiting = [folder]
    while waiting:
        yield (parent := waiting.pop())
        with suppress(OSError), os.scandir(parent) as entries:
            waiting += [parent / entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]


def make_folders(folder: Path) -> None:
    """Make a folder and those above it. Unlike `Path.mkdir`, it takes any depth."""
    missing: list[Path] = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for inner in reversed(missing):
        inner.mkdir(exist_ok=True)


def _checked(descriptor: int, path: Path, *, buffered: bool) -> IO[bytes]:
    status = os.fstat(descriptor)
    if not S_ISREG(status.st_mode):
        os.close(descriptor)
        raise NoRegularFileError(None, f"{_kind_of(status.st_mode)}, not a regular file", str(path))
    return open(descriptor, "rb", buffering=-1 if buffered else 0)


def _kind_of(mode: int) -> str:
    return next((kind for is_kind, kind in _KINDS if is_kind(mode)), "is a folder")
