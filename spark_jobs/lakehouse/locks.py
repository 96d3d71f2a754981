"""One run at a time: a folder's lock, which a killed process gives up with its life."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock
from pathlib import Path

from spark_jobs.errors import KeyfoldError

_CHANCES = 3
_PAUSE_SECONDS = 0.02


@contextmanager
def exclusive(folder: Path, what: str) -> Iterator[None]:
    """Hold a folder's lock, so that two runs never share a journal; a killed run's lock is freed with it.

    Raises:
        KeyfoldError: another run holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w", encoding="utf-8") as file:
        for chance in range(_CHANCES):
            try:
                # The kernel frees it with the process, however that ends: no lock is ever left to be cleared away.
                flock(file, LOCK_EX | LOCK_NB)
                break
            except BlockingIOError:
                if chance == _CHANCES - 1:
                    raise KeyfoldError(f"{what} is already running on {folder}; wait for that run or stop it") from None
                # Perhaps nobody runs, and somebody only looks whether one does (`is_held`): that takes no time.
                time.sleep(_PAUSE_SECONDS)
        yield


def is_held(folder: Path) -> bool:
    """Whether some run holds a folder's lock now."""
    try:
        with open(folder / ".lock", "rb") as file:
            flock(file, LOCK_SH | LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False
