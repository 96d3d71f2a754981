"""Locks of files: whether a process lives, and one at a time of what must not be there twice.

A lock is the kernel's (`flock`) and is freed with the process, however that ends: none is ever left to be cleared away,
and none can be mistaken for another process's, as a process id can after a crash or a restart of the machine.

Imports nothing: a daemon starts with it, and waits with it. `lakehouse.locks` has the lock of a folder that runs write to.
"""

import os
import time
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock
from pathlib import Path
from typing import IO

A_LOOK = 0.05
"""Seconds: longer than one who only looks whether a lock is held (`is_locked`) has it."""

_PAUSE_SECONDS = 0.02


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
