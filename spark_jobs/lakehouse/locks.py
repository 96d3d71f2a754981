"""One run at a time: a folder's lock, which a killed process gives up with its life."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock
from pathlib import Path
from typing import TextIO

from spark_jobs.errors import KeyfoldError

_CHANCES = 3
_PAUSE_SECONDS = 0.02


@contextmanager
def exclusive(folder: Path, what: str) -> Iterator[None]:
    """Hold a folder's lock, so that two runs never share a journal; a killed run's lock is freed with it.

    Raises:
        KeyfoldError: another run holds it, or nothing can be written there.
    """
    with _opened(folder) as file:
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
