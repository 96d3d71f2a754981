"""Lock a folder, so that only one run writes to it at a time.

On a disk it is a kernel lock, released when its process ends. In a store it is a lease (`keyfold.storage.lease`).
"""

from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

from keyfold.storage.place import Place
from keyfold.storage.storage import storage_of


def exclusive(folder: Place, what: str, *, patience: timedelta = timedelta(0)) -> AbstractContextManager[Any]:
    """Hold a folder's lock, so that two runs never share a journal.

    Args:
        folder: the folder that the run writes to.
        what: a name for the run, for the error message.
        patience: how long to wait for another run to end.

    Raises:
        KeyfoldError: another run holds the lock, or the folder is not writable.
    """
    return storage_of(folder).exclusive(folder, what, patience)


def is_held(folder: Place) -> bool:
    """Whether a run holds a folder's lock now."""
    return storage_of(folder).is_held(folder)
