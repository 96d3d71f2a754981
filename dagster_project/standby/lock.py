"""Which process has a run: a locked file with its number, which cannot outlive it nor be another's."""

from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock
from os import getpid
from pathlib import Path
from time import monotonic, sleep


@contextmanager
def hold(lock: Path) -> Iterator[None]:
    """Hold the lock while a run goes on; at its end the file goes. A process that is killed leaves it, unlocked."""
    with open(lock, "w", encoding="utf-8") as file:
        flock(file, LOCK_EX)
        print(getpid(), file=file, flush=True)
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def holder(lock: Path) -> int | None:
    """The process that holds the lock, None where none does."""
    try:
        with open(lock, encoding="utf-8") as file:
            try:
                flock(file, LOCK_SH | LOCK_NB)
            except BlockingIOError:
                return int(file.read() or 0) or None
            return None
    except FileNotFoundError:
        return None


def wait_for_holder(lock: Path, seconds: float) -> int | None:
    """The process that holds the lock, once it does; None where none has taken it in so many seconds."""
    end = monotonic() + seconds
    while (found := holder(lock)) is None and lock.exists() and monotonic() < end:
        sleep(0.05)
    return found
