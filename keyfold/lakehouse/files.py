"""Files that are whole or not there, on a disk and in a store: the one place that knows the difference.

On a disk a file is written aside, made durable, and put in place in one step, under its folder's lock. What is in a bucket is
written whole by what knows the store (`RemotePath`); what there is to see to is that no run writes that has lost its lease,
and, since such a run may stop for long right before a write, that what counts is written once, or in the place of what was
read.
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
        path: where it is.
        bytes: its size.
        changed_at: nanoseconds since 1970.
        is_shared: whether it has a second name; in a store none has.
        tag: of its content, where a store has one.
    """

    path: Place
    bytes: int
    changed_at: int
    is_shared: bool = False
    tag: str = ""


class DamagedError(Damaged):
    """What was to be a small JSON object is none; the disk has failed, or somebody has edited it.

    Attributes:
        tag: that `replace_json` takes to write one in its place.
    """

    tag: str = ""


def read_json(path: Place, remedy: str = "") -> dict[str, Any]:
    """Read a small JSON object.

    Args:
        path: the file.
        remedy: what else to do than to restore it, where it is damaged.

    Raises:
        DamagedError: it is none.
    """
    return _as_object(path, path.read_text(encoding="utf-8", errors="replace"), remedy)


def read_json_with_tag(path: Place) -> tuple[dict[str, Any] | None, str]:
    """A small JSON object, None where there is none; and the tag of it that `replace_json` takes.

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
    """The content of a file, and the tag that `replace` takes; on a disk it is empty.

    Raises:
        FileNotFoundError: it is not there.
    """
    return path.read_with_tag() if isinstance(path, RemotePath) else (path.read_bytes(), "")


def write_json(path: Place, content: dict[str, Any]) -> None:
    """Write a small JSON object; see `write_durably`."""
    write_durably(path, _of_object(content))


def write_json_once(path: Place, content: dict[str, Any]) -> None:
    """Write a small JSON object that is to stay as it is; see `write_once`."""
    write_once(path, _of_object(content))


def replace_json(path: Place, content: dict[str, Any], tag: str) -> None:
    """Write a small JSON object in the place of the one that has a tag, or of none.

    Raises:
        KeyfoldError: in a store, another run has written it since; it is left as it is.
    """
    replace(path, _of_object(content), tag)


def write_durably(path: Place, content: bytes) -> None:
    """Write a file in one atomic step that survives a power cut: a reader sees the old one or the new one, whole.

    Raises:
        OSError: the disk is full or fails; the old file is as it was, and nothing is left beside it.
        KeyfoldError: this run has lost its lease.
    """
    if isinstance(path, RemotePath):
        check_held()
        path.write_bytes(content)
        return
    _write(path, content, durably=True)
    sync_folder(path.parent)


def write_once(path: Place, content: bytes) -> None:
    """Write a file that is to stay as it is, durably.

    Raises:
        OSError: as `write_durably`.
        KeyfoldError: in a store, another run has written it otherwise; it is left as it is.
    """
    if isinstance(path, RemotePath):
        _write_conditionally(path, content, path.create)
    else:
        write_durably(path, content)


def replace(path: Place, content: bytes, tag: str) -> None:
    """Write a file in the place of what has a tag, or, without one, of nothing, durably.

    Args:
        path: where.
        content: of the file; where it is there already, all is well: of a write whose answer was lost nobody knows.
        tag: as read; on a disk, where the lock of a run lasts as long as it lives, nothing asks for it.

    Raises:
        OSError: as `write_durably`.
        KeyfoldError: in a store, another run has written it since; it is left as it is.
    """
    if not isinstance(path, RemotePath):
        write_durably(path, content)
    elif tag:
        _write_conditionally(path, content, lambda content: path.write_if_unchanged(content, tag))
    else:
        _write_conditionally(path, content, path.create)


def tag_of(path: Place) -> str:
    """The tag of a file as it is now, by which `replace` takes its place; none of one that is not there."""
    if not isinstance(path, RemotePath):
        return ""
    try:
        return path.stat().e_tag or ""
    except FileNotFoundError:
        return ""


def write_whole(path: Place, content: bytes) -> None:
    """Write a file in one atomic step, for what may be lost with the machine's power and made again.

    Raises:
        OSError: as `write_durably`.
    """
    if isinstance(path, RemotePath):
        path.write_bytes(content)
    else:
        _write(path, content, durably=False)


@contextmanager
def new_file(path: Place, named: Callable[[IO[bytes]], str] | None = None) -> Iterator[IO[bytes]]:
    """Open a new file of a name that nobody looks for yet, to write and read; it is durable at the end, or gone without it.

    Args:
        path: where.
        named: gives the name, in the same folder, that the file has at the end, from what was written.

    Raises:
        OSError: the disk is full or fails.
    """
    if isinstance(path, RemotePath):
        # On this machine's disk first: a worker holds its rows in memory as it is.
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
                # Before it is synced: with the file its new name is made durable too.
                path = path.rename(path.with_name(named(file)))
            _sync(file)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def open_for_reading(path: Place) -> IO[bytes]:
    """Open a file, of which is fetched what is read."""
    return path.open_reader() if isinstance(path, RemotePath) else open(path, "rb")


def second_name(path: Place, other: Place) -> None:
    """Have a file under a second name too, which lives on when the first is removed; in a store it is a copy.

    Raises:
        OSError: it cannot be made; the two are on different disks.
        KeyfoldError: one is in a store and the other is not, or in another one.
    """
    if isinstance(path, RemotePath) and isinstance(other, RemotePath) and path.shares_store_with(other):
        path.copy_to(other)
    elif isinstance(path, Path) and isinstance(other, Path):
        other.parent.mkdir(parents=True, exist_ok=True)
        os.link(path, other)
    else:
        raise KeyfoldError(f"{path} and {other} do not lie in one place, and files are not shared from one to another")


def move_tree(folder: Place, to: Place, last: str) -> None:
    """Move a folder to a place where nothing is yet.

    On a disk in one step; in a bucket file by file, by the store itself: the one called `last` comes last there, and goes
    first here, so that who looks for it finds either folder whole, or both.

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
    """Move a file to a place where nothing is yet; in a bucket it is for a moment in both.

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
    """Remove a folder and all that is in it.

    Args:
        folder: which.
        missing_ok: whether it may be gone already, or what is in it may go meanwhile.

    Raises:
        OSError: it cannot be removed.
        KeyfoldError: this run has lost its lease.
    """
    if isinstance(folder, RemotePath):
        check_held()
        folder.remove_tree()
    else:
        shutil.rmtree(folder, ignore_errors=missing_ok)


def files_below(folder: Place) -> Iterator[FoundFile]:
    """Every file at any depth below a folder; what goes while it is listed may be left out. Links are not followed."""
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
    """Make durable what another program has written."""
    if isinstance(path, RemotePath):
        return
    # For writing: of a file that is open for reading alone, some systems sync nothing.
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Place) -> None:
    """Make a rename or a new name in a folder durable."""
    if isinstance(folder, RemotePath):
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sweep(folder: Place) -> None:
    """Remove what a killed process had written aside; call it only under the lock of whoever writes there."""
    if isinstance(folder, RemotePath):
        return  # what was not written whole is not there
    for aside in folder.glob(f"{_ASIDE}*"):
        aside.unlink(missing_ok=True)


def _as_object(path: Place, text: str, remedy: str = "") -> dict[str, Any]:
    what_to_do = "restore it from a backup" + (f", or {remedy}" if remedy else "")
    try:
        found = json.loads(text)
    except ValueError as error:
        raise DamagedError(f"{path} is damaged ({error}); {what_to_do}") from error
    if not isinstance(found, dict):
        raise DamagedError(f"{path} is damaged (it holds no object); {what_to_do}")
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
    # In the same folder, since a rename is atomic within one file system alone; with a dot, so that no reader sees it.
    # Made with mode 0600, which the file keeps: some of what is written so is a secret.
    descriptor, aside = tempfile.mkstemp(dir=path.parent, prefix=_ASIDE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            if durably:
                # Before the rename: else a power cut may leave the new name with nothing in it.
                _sync(file)
        os.replace(aside, path)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())
