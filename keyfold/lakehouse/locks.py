"""One run at a time: the lock of a folder that runs write to, which a killed process gives up with its life.

On a disk it is the kernel's, in a store a lease (`objects.lease`).
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TextIO

from keyfold.errors import Locked, Misconfigured
from keyfold.locks import A_LOOK, is_locked, take
from keyfold.storage.lease import is_leased, leased
from keyfold.storage.place import Place
from keyfold.storage.remote_path import RemotePath


def exclusive(folder: Place, what: str, *, patience: timedelta = timedelta(0)) -> AbstractContextManager[Any]:
    """Hold a folder's lock, so that two runs never share a journal.

    Args:
        folder: that is written to.
        what: is done there, for people.
        patience: how long to wait for another run to end.

    Raises:
        KeyfoldError: another run holds it, or nothing can be written there.
    """
    if isinstance(folder, RemotePath):
        return leased(folder, what, patience=patience)
    return _locked(folder, what, patience)


def is_held(folder: Place) -> bool:
    """Whether some run holds a folder's lock now."""
    return is_leased(folder) if isinstance(folder, RemotePath) else is_locked(folder / ".lock")


@contextmanager
def _locked(folder: Path, what: str, patience: timedelta) -> Iterator[None]:
    with _opened(folder) as file:
        try:
            take(file, seconds=max(A_LOOK, patience.total_seconds()))
        except BlockingIOError:
            raise Locked(f"{what} is already running on {folder}; wait for that run or stop it") from None
        yield


def _opened(folder: Path) -> TextIO:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return open(folder / ".lock", "w", encoding="utf-8")
    except OSError as error:
        # The first thing that a run writes: a home that is read-only, or another user's, is noticed here.
        raise Misconfigured(
            f"{error.filename or folder} cannot be written: {error.strerror}; the home (--home, KEYFOLD_HOME) must be a folder "
            "that this user may write to"
        ) from None
