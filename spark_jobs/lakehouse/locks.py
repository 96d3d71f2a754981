"""One run at a time: the lock of a folder that runs write to, which a killed process gives up with its life."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from spark_jobs.errors import KeyfoldError
from spark_jobs.locks import A_LOOK, is_locked, take


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
