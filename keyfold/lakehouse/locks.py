"""Lock a folder, so that only one run writes to it at a time.

On a disk it is a kernel lock, released when its process ends. In a store it is a lease (`keyfold.storage.lease`).
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
        folder: the folder that the run writes to.
        what: a name for the run, for the error message.
        patience: how long to wait for another run to end.

    Raises:
        KeyfoldError: another run holds the lock, or the folder is not writable.
    """
    if isinstance(folder, RemotePath):
        return leased(folder, what, patience=patience)
    return _locked(folder, what, patience)


def is_held(folder: Place) -> bool:
    """Whether a run holds a folder's lock now."""
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
        # The lock is a run's first write, so a lakehouse directory without write access is found here.
        raise Misconfigured(
            f"{error.filename or folder} cannot be written: {error.strerror}; the lakehouse directory (--home, KEYFOLD_HOME) "
            "must be a folder that this user may write to"
        ) from None
