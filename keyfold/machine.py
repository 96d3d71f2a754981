"""Tools for processes of one machine: file locks, the names of loopback, and files that only their user can read.

A file lock shows that a process is alive, and keeps a second process of its kind from starting. It is the kernel's (`flock`), which releases it when the process ends in any way. So locks are never stale, unlike a file
with a process id after a crash or a restart of the machine.

A browser can reach loopback from any web page. A page whose own name resolves to 127.0.0.1 (DNS rebinding) could also read the
answers. Its requests have that name as Host, so refusing other names than loopback's stops it.

This module imports no other of Keyfold, since daemons wait on locks before they load anything. `DiskPath.exclusive` has the
lock of a job, stream or table.
"""

import os
import time
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock
from pathlib import Path
from typing import IO

A_LOOK = 0.05
"""Seconds; longer than `is_locked` holds a lock while it checks it."""

_PAUSE_SECONDS = 0.02


def open_lock(path: Path) -> int:
    """Open a lock file, which only its user may read; create it if it does not exist.

    Raises:
        OSError: the file cannot be created, or is a symbolic link.
    """
    # `os.open` makes the descriptor non-inheritable: a child process that inherited it would keep the lock.
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)


def lock_for_life(path: Path) -> int:
    """Lock a file until this process ends; returns its descriptor, to write to it.

    Raises:
        BlockingIOError: another process holds the lock.
        OSError: as `open_lock`.
    """
    descriptor = open_lock(path)
    try:
        take(descriptor, seconds=A_LOOK)
    except BaseException:
        os.close(descriptor)
        raise
    # The descriptor must stay open: closing it would release the lock.
    return descriptor


def take(file: int | IO[str], *, seconds: float | None = None) -> None:
    """Lock an open file, and wait until it is free; closing the file releases it.

    Args:
        file: a descriptor, or a file object.
        seconds: longest time to wait; None waits without limit.

    Raises:
        BlockingIOError: another process held the lock all that time.
    """
    if seconds is None:
        flock(file, LOCK_EX)
        return
    late = time.monotonic() + seconds
    while True:
        try:
            flock(file, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            # Retry at least once: another process may hold the lock for a moment in `is_locked`.
            if time.monotonic() > late:
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            return


def is_locked(path: Path) -> bool:
    """Return whether a process holds the lock of a file now; False if there is no such file.

    Raises:
        OSError: the file cannot be opened, or is a symbolic link.
    """
    try:
        # Non-blocking: if the file is a named pipe, opening it would block without end.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return False
    try:
        # A shared lock: several processes may check at once.
        flock(descriptor, LOCK_SH | LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


ADDRESS = "127.0.0.1"
NAMES = frozenset({ADDRESS, "localhost", "[::1]"})


def host_name(host: str) -> str:
    """Return the name in a Host header, without its port.

    Example:
        >>> host_name("LocalHost:3000"), host_name("[::1]:3000"), host_name("evil.example:80")
        ('localhost', '[::1]', 'evil.example')
    """
    name, colon, port = host.lower().rpartition(":")
    return name if colon and port.isdecimal() else host.lower()


_OTHERS = 0o077


def keep_files_private() -> None:
    """Set the umask, so that this process and its children create files and folders that only their user can access.

    Each entry point of Keyfold calls it: the command line, the loading of definitions, the servers of `make ui`. Java and
    Spark's workers inherit it. On a cluster, the executors have the umask of the cluster manager.
    """
    os.umask(os.umask(_OTHERS) | _OTHERS)
