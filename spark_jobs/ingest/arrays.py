"""Files of numbers that are written once and looked at in places; those of a store are kept on this machine's disk too.

What is looked at is mapped into memory, which takes a file. A copy goes by the object's own name, which is never used
twice, so that it is never old. The oldest copies go when all together take more than KEYFOLD_CACHE_BYTES, 4 GiB by default.
"""

import os
import tempfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import numpy as np
import numpy.typing as npt

from spark_jobs.errors import KeyfoldError
from spark_jobs.lakehouse.files import new_file
from spark_jobs.objects.place import Place
from spark_jobs.objects.remote_path import RemotePath

_BYTES = 4 << 30
_TRIES = 3

Array = npt.NDArray[np.generic]


def write_array(path: Place, numbers: Array) -> None:
    """Write numbers as a file of a new name, durably.

    Raises:
        OSError: the disk is full or fails.
    """
    with new_file(path) as file:
        np.save(file, numbers)


def open_array(path: Place) -> Array:
    """The numbers of a file; they stay on disk until they are looked at.

    Raises:
        OSError: it cannot be read.
    """
    if not isinstance(path, RemotePath):
        return np.load(path, mmap_mode="r")
    for _ in range(_TRIES):
        # Another process may remove the copy before it is opened; from then on it stays while it is used.
        with suppress(FileNotFoundError):
            return np.load(_copy_of(path), mmap_mode="r")
    return np.load(path.open_reader(), allow_pickle=False)


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
        raise KeyfoldError(f"{folder} is not this user's alone: remove it, or give another TMPDIR")
    return folder
