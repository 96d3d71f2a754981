"""Locks of files: one run at a time, one server at an address, and whether a process lives.

A lock is the kernel's (`flock`) and is freed with the process, however that ends: none is ever left to be cleared away,
and none can be mistaken for another process's, as a process id can after a crash or a restart of the machine.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock
from pathlib import Path
from typing import IO, TextIO

from spark_jobs.errors import KeyfoldError

A_LOOK = 0.05
"""Seconds: longer than one who only looks whether a lock is held (`is_locked`) has it."""

_PAUSE_SECONDS = 0.02


@contextmanager
def exclusive(folder: Path, what: str) -> Iterator[None]:
    """Hold a folder's lock, so that two runs never share a journal.

    Raises:
        KeyfoldError: another run holds it, or nothing can be written there.
    """
    with _opened(folder) as file:
        try:
            take(file, seconds=A_LOOK)
        except BlockingIOError:
            raise KeyfoldError(f"{what} is already running on {folder}; wait for that run or stop it") from None
        yield


def is_held(folder: Path) -> bool:
    """Whether some run holds a folder's lock now."""
    return is_locked(folder / ".lock")


def open_lock(path: Path) -> int:
    """Open a file to be locked, which is its user's alone; made where it is not there.

    Raises:
        OSError: it cannot be made, or is a link.
    """
    # No process that this one starts inherits it: else it would hold the lock on.
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)


def lock_for_life(path: Path) -> int:
    """Lock a file until this process ends, in whatever way; gives its descriptor, to write into it.

    Raises:
        BlockingIOError: another process has it.
        OSError: as `open_lock`.
    """
    descriptor = open_lock(path)
    try:
        take(descriptor, seconds=A_LOOK)
    except BaseException:
        os.close(descriptor)
        raise
    # Never closed from here on: that would free it.
    return descriptor


def take(file: int | IO[str], *, seconds: float | None = None) -> None:
    """Lock an open file, as soon as nobody else has it; closing the file frees it.

    Args:
        file: a descriptor, or what has one.
        seconds: to wait at most; None waits for as long as it takes.

    Raises:
        BlockingIOError: it was not to be had within that time.
    """
    if seconds is None:
        flock(file, LOCK_EX)
        return
    late = time.monotonic() + seconds
    while True:
        try:
            flock(file, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            # Perhaps nobody holds it, and somebody only looks whether one does: so never given up at once.
            if time.monotonic() > late:
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            return


def is_locked(path: Path) -> bool:
    """Whether some process has a file locked now; not where there is no such file.

    Raises:
        OSError: it cannot be opened, or is a link.
    """
    try:
        # Without waiting: a pipe that stands in its place would keep whoever opens it for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return False
    try:
        # Shared: those who look are not in each other's way.
        flock(descriptor, LOCK_SH | LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _opened(folder: Path) -> TextIO:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return open(folder / ".lock", "w", encoding="utf-8")
    except OSError as error:
        # The first thing that a run writes: a home that is read-only, or another user's, is noticed here.
        raise KeyfoldError(
            f"{error.filename or folder} cannot be written: {error.strerror}; the home (--home, KEYFOLD_HOME) must be a folder "
            "that this user may write to"
        ) from None
