"""A private scratch folder for Spark's temporary files, deleted when its process ends, or by a later process.

Spark and its libraries keep shuffled rows and native libraries (10 MB per process) in temporary folders. A
killed process leaves them, under names that do not say whose they are. So they are put into one folder with a lock that the
process holds as long as it lives; folders whose lock is free are deleted.
"""

import atexit
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pyspark

from keyfold.machine import is_locked, lock_for_life

_PREFIX, _LOCK = "keyfold-scratch-", ".lock"
_AN_HOUR = 3600


def new_scratch() -> Path:
    """Create a folder for this process. It is deleted at its end; if it is killed, by the next process's `sweep_scratch`."""
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))  # mode 0700
    lock_for_life(folder / _LOCK)
    atexit.register(_delete_own, folder, os.getpid())
    return folder


def sweep_scratch() -> int:
    """Delete the scratch folders of this user's ended processes, and return their number."""
    swept = 0
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            # Folders of other users may have the same prefix, as /tmp is shared.
            if folder.stat().st_uid == os.getuid() and _is_abandoned(folder):
                shutil.rmtree(folder, ignore_errors=True)
                swept += 1
    return swept


def spark_home(folder: Path) -> Path:
    """Make a Spark home without `python/lib/pyspark.zip`, with links to all other parts of the installed pyspark.

    Spark puts this zip first on the path of each Python process that it starts. Python does not cache the bytecode of modules in a
    zip, so each process compiled pyspark anew, in 0.6 to 0.8 processor seconds (benchmarks/results/performance.md).

    Args:
        folder: where to make it. It must exist as long as the Java process.

    Example:
        >>> spark_home(scratch)  # doctest: +SKIP
        PosixPath('/tmp/keyfold-scratch-x/spark-home')
    """
    home = folder / "spark-home"
    home.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        if part.name != "python":
            (home / part.name).symlink_to(part)
    return home


def _is_abandoned(folder: Path) -> bool:
    lock = folder / _LOCK
    if not lock.exists():
        # Created just now, or by a process that was killed before it had the lock.
        return time.time() - folder.stat().st_mtime > _AN_HOUR
    return not is_locked(lock)


def _delete_own(folder: Path, process: int) -> None:
    if os.getpid() == process:  # a fork runs exit handlers too, and must not delete its parent's folder
        shutil.rmtree(folder, ignore_errors=True)
