"""Files of numbers that are written once and memory-mapped for reading. Objects of a store are cached on the local disk.

Memory-mapping needs a local file. Names of objects are never reused, so a cached copy is never out of date. The oldest copies
are deleted when all together exceed 4 GiB.
"""

import io
import os
import tempfile
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

import numpy as np
import numpy.typing as npt

from keyfold.errors import Damaged, Misconfigured
from keyfold.lakehouse.checksums import checksum_of, checksum_of_bytes
from keyfold.storage.place import Place

_BYTES = 4 << 30
_TRIES = 3

Array = npt.NDArray[np.generic]


def write_array(path: Place, numbers: Array) -> str:
    """Write numbers durably to a new file, and return its checksum.

    Raises:
        OSError: the disk is full or fails.
    """
    with path.new_file() as file:
        np.save(file, numbers)
        return checksum_of(file)


class DamagedArrayError(Damaged):
    """The checksum of a file of numbers is wrong."""


def open_array(path: Place, checksum: str = "") -> Array:
    """Memory-map a file of numbers.

    Args:
        checksum: its checksum, verified once per process; empty if it is not known.

    Raises:
        OSError: the file cannot be read.
        DamagedArrayError: the file has another checksum.
    """
    if (file := path.local_path) is not None:
        return _opened(file, path, checksum)
    for _ in range(_TRIES):
        # Another process may delete the copy before it is opened; once open, it stays readable.
        with suppress(FileNotFoundError):
            return _opened(_copy_of(path), path, checksum)
    content = path.read_bytes()
    if checksum and checksum_of_bytes(content) != checksum:
        raise _damaged(path)
    return np.load(io.BytesIO(content), allow_pickle=False)


def _opened(file: Path, path: Place, checksum: str) -> Array:
    if checksum:
        status = file.stat()
        try:
            _verify(str(file), checksum, (status.st_size, status.st_mtime_ns, status.st_ino))
        except ValueError:
            if file != path:
                file.unlink(missing_ok=True)
            raise _damaged(path) from None
    return np.load(file, mmap_mode="r")


# Bounded, since each batch has files of its own; more than the segments of any index are not verified again and again.
@lru_cache(maxsize=1 << 10)
def _verify(file: str, checksum: str, _version: tuple[int, int, int]) -> None:
    """Verify a version of a file, once per process: size, modification time, inode."""
    with open(file, "rb") as opened:
        if checksum_of(opened) != checksum:
            raise ValueError(file)


def _damaged(path: Place) -> DamagedArrayError:
    return DamagedArrayError(f"{path} is damaged: its checksum is wrong")


def _copy_of(path: Place) -> Path:
    copy = _folder() / f"{sha256(str(path.parent).encode()).hexdigest()[:16]}-{path.name}"
    try:
        # Marks the copy as recently used, since the oldest ones are deleted first.
        os.utime(copy)
    except FileNotFoundError:
        content = path.read_bytes()
        _make_room(copy.parent, len(content))
        with tempfile.NamedTemporaryFile(dir=copy.parent, delete=False) as aside:
            aside.write(content)
        # Workers on one machine share the copies: another one must find the whole file, or none.
        os.replace(aside.name, copy)
    return copy


def _make_room(folder: Path, wanted: int) -> None:
    copies = sorted((entry.stat().st_mtime_ns, entry.stat().st_size, entry.path) for entry in _entries(folder))
    over = sum(size for _, size, _ in copies) + wanted - _BYTES
    for _, size, path in copies:
        if over <= 0:
            return
        Path(path).unlink(missing_ok=True)
        over -= size


def _entries(folder: Path) -> list["os.DirEntry[str]"]:
    entries: list[os.DirEntry[str]] = []
    with os.scandir(folder) as listed:
        for entry in listed:
            with suppress(FileNotFoundError):
                entry.stat()
                entries.append(entry)
    return entries


def _folder() -> Path:
    folder = Path(tempfile.gettempdir()) / f"keyfold-cache-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    # Any user may create a folder below /tmp, and its files would be trusted.
    if status.st_uid != os.getuid() or status.st_mode & 0o077 or folder.is_symlink():
        raise Misconfigured(f"{folder} is not private to this user: remove it, or set another TMPDIR")
    return folder
