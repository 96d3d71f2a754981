"""One run at a time: a folder's lock, which a killed process gives up with its life."""

from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock
from pathlib import Path

from spark_jobs.errors import KeyfoldError


@contextmanager
def exclusive(folder: Path, what: str) -> Iterator[None]:
    """Hold a folder's lock, so that two runs never share a journal; a killed run's lock is freed with it.

    Raises:
        KeyfoldError: another run holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w", encoding="utf-8") as file:
        try:
            flock(file, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            raise KeyfoldError(f"{what} is already running on {folder}; wait for that run or stop it") from None
        yield


def is_held(folder: Path) -> bool:
    """Whether some run holds a folder's lock now; whoever asks for it in that very moment may be told that one does."""
    try:
        with open(folder / ".lock", "rb") as file:
            flock(file, LOCK_SH | LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False
