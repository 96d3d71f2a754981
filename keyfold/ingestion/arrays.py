"""Files of numbers that are written once and looked at in places; those of a store are kept on this machine's disk too.

What is looked at is mapped into memory, which takes a file. A copy goes by the object's own name, which is never used
twice, so that it is never old. The oldest copies go when all together take more than KEYFOLD_CACHE_BYTES, 4 GiB by default.
"""

import io
import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import numpy as np
import numpy.typing as npt

from keyfold.errors import Damaged, Misconfigured
from keyfold.lakehouse.checksums import checksum_of, checksum_of_bytes
from keyfold.lakehouse.files import new_file
from keyfold.storage.place import Place
from keyfold.storage.remote_path import RemotePath

_BYTES = 4 << 30
_TRIES = 3

_VERIFIED: dict[str, tuple[int, int, int]] = {}
"""Size, time of change and inode of the files whose checksums this process has verified."""

Array = npt.NDArray[np.generic]


def write_array(path: Place, numbers: Array) -> str:
    """Write numbers as a file of a new name, durably; gives its checksum.

    Raises:
        OSError: the disk is full or fails.
    """
    with new_file(path) as file:
        np.save(file, numbers)
        return checksum_of(file)


def write_pieces(path: Place, shape: tuple[int, int], pieces: Iterable[Array]) -> str:
    """Write columns of whole numbers (`uint64`) that come one piece after the other, as `write_array` writes them at once.

    Args:
        path: a new name.
        shape: rows and columns of all pieces together.
        pieces: some columns each, with all rows.

    Raises:
        OSError: the disk is full or fails.
    """
    rows, columns = shape
    with new_file(path) as file:
        header = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.uint64)), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        begin, done = file.tell(), 0
        for piece in pieces:
            for row in range(rows):
                file.seek(begin + (row * columns + done) * 8)
                file.write(np.ascontiguousarray(piece[row]).data)
            done += piece.shape[1]
        return checksum_of(file)


class DamagedArrayError(Damaged):
    """A file of numbers does not hold what was written."""


def open_array(path: Place, checksum: str = "") -> Array:
    """The numbers of a file; they stay on disk until they are looked at.

    Args:
        path: the file.
        checksum: that it must have; each process looks at a file once. Empty of a file whose checksum nobody knows.

    Raises:
        OSError: it cannot be read.
        DamagedArrayError: it has another checksum.
    """
    if not isinstance(path, RemotePath):
        return _opened(path, path, checksum)
    for _ in range(_TRIES):
        # Another process may remove the copy before it is opened; from then on it stays while it is used.
        with suppress(FileNotFoundError):
            return _opened(_copy_of(path), path, checksum)
    content = path.read_bytes()
    if checksum and checksum_of_bytes(content) != checksum:
        raise _damaged(path)
    return np.load(io.BytesIO(content), allow_pickle=False)


def _opened(file: Path, path: Place, checksum: str) -> Array:
    if checksum:
        found = file.stat()
        as_it_is = (found.st_size, found.st_mtime_ns, found.st_ino)
        if _VERIFIED.get(str(file)) != as_it_is:
            with file.open("rb") as opened:
                if checksum_of(opened) != checksum:
                    if file != path:
                        file.unlink(missing_ok=True)
                    raise _damaged(path)
            _VERIFIED[str(file)] = as_it_is
    return np.load(file, mmap_mode="r")


def _damaged(path: Place) -> DamagedArrayError:
    return DamagedArrayError(f"{path} does not hold what was written to it (its checksum is another one)")


def _copy_of(path: RemotePath) -> Path:
    copy = _folder() / f"{sha256(str(path.parent).encode()).hexdigest()[:16]}-{path.name}"
    try:
        os.utime(copy)
    except FileNotFoundError:
        content = path.read_bytes()
        _make_room(copy.parent, len(content))
        with tempfile.NamedTemporaryFile(dir=copy.parent, delete=False) as aside:
            aside.write(content)
        os.replace(aside.name, copy)
    return copy


def _make_room(folder: Path, wanted: int) -> None:
    found = sorted((entry.stat().st_mtime_ns, entry.stat().st_size, entry.path) for entry in _entries(folder))
    over = sum(size for _, size, _ in found) + wanted - int(os.environ.get("KEYFOLD_CACHE_BYTES") or _BYTES)
    for _, size, path in found:
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
    found = folder.lstat()
    # Below /tmp anybody may make a folder of any name, and what is in it is believed.
    if found.st_uid != os.getuid() or found.st_mode & 0o077 or folder.is_symlink():
        raise Misconfigured(f"{folder} is not this user's alone: remove it, or give another TMPDIR")
    return folder
