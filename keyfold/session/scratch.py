"""A process's temporary folder for Spark: private, gone with the process, and swept by the next one where it was killed.

Spark and its libraries keep shuffled rows, state stores and native libraries (ten megabytes a process) in temporary
folders, and delete them at their end: a process that is killed leaves them for ever, below names that say nothing. Here
they are below one folder, with a lock that is held for life.
"""

import atexit
import os
import shlex
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from keyfold.locks import is_locked, lock_for_life

_PREFIX, _LOCK = "keyfold-scratch-", ".lock"
_AN_HOUR = 3600


def new_scratch() -> Path:
    """A folder that this process alone uses, deleted at its end, or, where it is killed, by the next one's sweep."""
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))  # mode 0700
    lock_for_life(folder / _LOCK)
    atexit.register(_delete_own, folder, os.getpid())
    return folder


def sweep_scratch() -> int:
    """Delete the scratch folders of this user's processes that are no more; gives how many."""
    swept = 0
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if folder.stat().st_uid == os.getuid() and _is_abandoned(folder):
                shutil.rmtree(folder, ignore_errors=True)
                swept += 1
    return swept


@contextmanager
def scratch_of_java(conf: Mapping[str, str]) -> Iterator[None]:
    """Have a Java process that is started within keep its temporary files in a scratch folder.

    By its environment, since settings are compared where a run attaches to a Spark that is there. Where Spark's local
    folders are set, they stay as they are: they may be on a disk of their own.

    Args:
        conf: Spark's settings.
    """
    sweep_scratch()
    folder = new_scratch()
    before = {name: os.environ.get(name) for name in ("SPARK_SUBMIT_OPTS", "SPARK_LOCAL_DIRS")}
    own = shlex.quote(f"-Djava.io.tmpdir={folder}")
    os.environ["SPARK_SUBMIT_OPTS"] = f"{before['SPARK_SUBMIT_OPTS'] or ''} {own}".strip()
    if "spark.local.dir" not in conf:
        os.environ.setdefault("SPARK_LOCAL_DIRS", str(folder))
    try:
        yield
    finally:
        # Else processes that this one starts would use its folder, and lose it with its end.
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _is_abandoned(folder: Path) -> bool:
    if not (folder / _LOCK).exists():
        # Made just now, or by a process that was killed in that moment.
        return time.time() - folder.stat().st_mtime > _AN_HOUR
    return not is_locked(folder / _LOCK)


def _delete_own(folder: Path, process: int) -> None:
    if os.getpid() == process:  # not a fork of it
        shutil.rmtree(folder, ignore_errors=True)
