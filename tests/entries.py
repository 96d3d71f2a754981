"""What may lie in a folder of files, one kind of entry a function: for tests of who lists, reads, checks and copies such folders."""

import ctypes
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

SECRET = "planted-secret"  # noqa: S105 - nobody's

Outcome = Literal["read", "quarantined", "waits", "ignored"]


@dataclass(frozen=True)
class Kind:
    """A kind of entry.

    Attributes:
        make: makes one in a folder, of some rows of text, beside a folder that is outside; returns its path.
        outcome: what ingest does with it: its rows are read, it is quarantined whole, it is named and waits, or it is ignored.
        in_backup: whether its content is in a backup.
        is_named: whether `health` and `check` name it.
        is_open_to_root: whether root can read it, whatever its mode.
    """

    make: Callable[[Path, Path, str], Path]
    outcome: Outcome
    in_backup: bool = False
    is_named: bool = False
    is_open_to_root: bool = False


def _file(name: str | bytes) -> Callable[[Path, Path, str], Path]:
    def make(folder: Path, outside: Path, rows: str) -> Path:
        path = folder / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(rows)
        return path

    return make


def _link(name: str, to: Callable[[Path, Path], str | Path]) -> Callable[[Path, Path, str], Path]:
    def make(folder: Path, outside: Path, rows: str) -> Path:
        (outside / "secret.ndjson").write_text(f'{{"{SECRET}": 1}}\n{rows}')
        (folder / name).symlink_to(to(folder, outside))
        return folder / name

    return make


def _empty(folder: Path, outside: Path, rows: str) -> Path:
    (folder / "empty.ndjson").touch()
    return folder / "empty.ndjson"


def _closed_file(folder: Path, outside: Path, rows: str) -> Path:
    path = _file("closed.ndjson")(folder, outside, rows)
    path.chmod(0)
    return path


def _closed_folder(folder: Path, outside: Path, rows: str) -> Path:
    _file("closed/inner.ndjson")(folder, outside, rows)
    (folder / "closed").chmod(0)
    return folder / "closed"


def _unsearchable_folder(folder: Path, outside: Path, rows: str) -> Path:
    _file("listed/inner.ndjson")(folder, outside, rows)
    (folder / "listed").chmod(0o444)
    return folder / "listed"


def _pipe(folder: Path, outside: Path, rows: str) -> Path:
    os.mkfifo(folder / "pipe.ndjson")
    return folder / "pipe.ndjson"


def _socket(folder: Path, outside: Path, rows: str) -> Path:
    # By a short name: an address of a socket is at most 107 bytes.
    before = os.open(".", os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as bound:
        os.chdir(folder)
        bound.bind("socket.ndjson")
        os.fchdir(before)
    os.close(before)
    return folder / "socket.ndjson"


def _device(folder: Path, outside: Path, rows: str) -> Path:
    os.mknod(folder / "device.ndjson", 0o20666, os.makedev(1, 5))  # of endless zeros
    return folder / "device.ndjson"


def _loop_of_two(folder: Path, outside: Path, rows: str) -> Path:
    (folder / "one.ndjson").symlink_to("other.ndjson")
    (folder / "other.ndjson").symlink_to("one.ndjson")
    return folder / "one.ndjson"


def _long_chain(folder: Path, outside: Path, rows: str) -> Path:
    for number in range(1500):
        (folder / f".{number}").symlink_to(f".{number + 1}")
    (folder / "chain.ndjson").symlink_to(".0")
    return folder / "chain.ndjson"


def _into_closed(folder: Path, outside: Path, rows: str) -> Path:
    inner = outside / "closed"
    inner.mkdir(exist_ok=True)
    (inner / "secret.ndjson").write_text(SECRET)
    inner.chmod(0)
    (folder / "into closed.ndjson").symlink_to(inner / "secret.ndjson")
    return folder / "into closed.ndjson"


def _within(folder: Path, outside: Path, rows: str) -> Path:
    target = _file("target.ndjson")(folder, outside, rows)
    (folder / "within.ndjson").symlink_to(target)
    return target


def _hard_link(folder: Path, outside: Path, rows: str) -> Path:
    path = _file("linked.ndjson")(folder, outside, rows)
    os.link(path, folder / "hard.ndjson")
    return path


def _folder_named_as_a_file(folder: Path, outside: Path, rows: str) -> Path:
    return _file("folder.ndjson/inner.ndjson")(folder, outside, rows)


def _nested(name: str, depth: int) -> Callable[[Path, Path, str], Path]:
    """Folders in each other, made from the inside: a path as long as theirs cannot be opened."""

    def make(folder: Path, outside: Path, rows: str) -> Path:
        before = os.open(".", os.O_RDONLY)
        os.chdir(folder)
        try:
            for _ in range(depth):
                os.mkdir(name)
                os.chdir(name)
            Path("inner.ndjson").write_text(rows)
        finally:
            os.fchdir(before)
            os.close(before)
        return folder / name

    return make


def _too_long(folder: Path, outside: Path, rows: str) -> Path:
    """A file whose path the system does not take, in a folder whose path it takes."""
    before, at = os.open(".", os.O_RDONLY), len(os.fsencode(folder))
    os.chdir(folder)
    try:
        while at < 3900:
            name = "f" * min(200, 3900 - at)
            os.mkdir(name)
            os.chdir(name)
            at += 1 + len(name)
        Path("n" * 240 + ".ndjson").write_text(rows)
    finally:
        os.fchdir(before)
        os.close(before)
    return folder / ("f" * 200)


KINDS: dict[str, Kind] = {
    "a regular file": Kind(_file("regular.ndjson"), "read", in_backup=True),
    "an empty file": Kind(_empty, "read", in_backup=True),
    "a file of mode 000": Kind(_closed_file, "waits", is_named=True, is_open_to_root=True),
    "a pipe": Kind(_pipe, "ignored"),
    "a socket": Kind(_socket, "ignored"),
    "a device": Kind(_device, "ignored"),
    "a link to itself": Kind(_link("self.ndjson", lambda *_: "self.ndjson"), "quarantined", is_named=True),
    "two links to each other": Kind(_loop_of_two, "quarantined", is_named=True),
    "a chain of 1,500 links": Kind(_long_chain, "quarantined", is_named=True),
    "a dangling link": Kind(_link("dangling.ndjson", lambda *_: "nowhere"), "quarantined", is_named=True),
    "a link with a target of 256 letters": Kind(
        _link("long.ndjson", lambda *_: "x" * 256), "quarantined", is_named=True
    ),
    "a link into a closed folder": Kind(_into_closed, "quarantined", is_named=True),
    "a link to a file outside": Kind(
        _link("out.ndjson", lambda _, outside: outside / "secret.ndjson"), "quarantined", is_named=True
    ),
    "a link to a folder outside": Kind(_link("out", lambda _, outside: outside), "quarantined", is_named=True),
    "a link to endless zeros": Kind(_link("zeros.ndjson", lambda *_: "/dev/zero"), "quarantined", is_named=True),
    "a link within": Kind(_within, "read", in_backup=True),
    "a link to the folder itself": Kind(_link("again", lambda folder, _: folder), "ignored"),
    "a hard link": Kind(_hard_link, "read", in_backup=True),
    "a folder with a file's name": Kind(_folder_named_as_a_file, "read", in_backup=True),
    "a closed folder": Kind(_closed_folder, "waits", is_named=True, is_open_to_root=True),
    "a folder that can be listed and not entered": Kind(
        _unsearchable_folder, "waits", is_named=True, is_open_to_root=True
    ),
    "1,200 nested folders": Kind(_nested("d", 1200), "read", in_backup=True),
    "40 nested folders of long names": Kind(_nested("d" * 200, 40), "waits", is_named=True),
    "a file whose path is too long": Kind(_too_long, "waits", is_named=True),
    "a name of two lines": Kind(_file("two\nlines.ndjson"), "read", in_backup=True),
    "a name with an escape sequence": Kind(_file("\x1b[31mred.ndjson"), "read", in_backup=True),
    "a name that is not UTF-8": Kind(_file(b"caf\xe9.ndjson"), "quarantined", in_backup=True, is_named=True),
    "a name of 255 bytes": Kind(_file("n" * 248 + ".ndjson"), "read", in_backup=True),
}


def make(kind: str, folder: Path, outside: Path, rows: str) -> Path | None:
    """Make an entry of a kind; None if this user or system cannot."""
    try:
        return KINDS[kind].make(folder, outside, rows)
    except PermissionError:
        return None


def remove(folder: Path) -> None:
    """Remove a folder, however deep it is and whoever may read it: what Python and pytest remove by calling themselves."""
    subprocess.run(["chmod", "-R", "u+rwX", str(folder)], check=False, capture_output=True)
    subprocess.run(["rm", "-rf", str(folder)], check=True)


_DAC_OVERRIDE, _DAC_READ_SEARCH = 1, 2
_VERSION = 0x20080522


def without_rights() -> None:
    """Take from root the right to read and search what modes forbid, for the rest of this process."""
    if os.geteuid():
        return
    words = ctypes.c_uint32 * 2
    header, data = words(_VERSION, 0), (ctypes.c_uint32 * 6)()
    system = ctypes.CDLL(None, use_errno=True)
    if system.capget(header, data):
        raise OSError(ctypes.get_errno(), "capget")
    for set_ in range(2):  # effective, permitted
        data[set_] &= ~(1 << _DAC_OVERRIDE | 1 << _DAC_READ_SEARCH)
    if system.capset(header, data):
        raise OSError(ctypes.get_errno(), "capset")


@contextmanager
def removed_afterwards(folder: Path) -> Iterator[Path]:
    """A folder that may hold any entry, and is removed at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder
    finally:
        remove(folder)
