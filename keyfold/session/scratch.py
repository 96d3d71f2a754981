"""A private scratch folder for Spark's temporary files, deleted when its process ends, or by a later process.

Spark and its libraries keep shuffled rows and native libraries (10 MB per process) in temporary folders. A
killed process leaves them, under names that do not say whose they are. So they are put into one folder with a lock that the
process holds as long as it lives; folders whose lock is free are deleted.
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

import pyspark

from keyfold.machine import is_locked, lock_for_life

_PREFIX, _LOCK = "keyfold-scratch-", ".lock"
_AN_HOUR = 3600


def new_scratch() -> Path:
    """Create a folder for this process. It is deleted at its end; if it is killed, by the next process's `sweep_scratch`."""
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))  # mode 0700
    lock_for_life(lock_of(folder))
    atexit.register(_delete_own, folder, os.getpid())
    return folder


def lock_of(folder: Path) -> Path:
    """Return the file that the process of a scratch folder keeps locked as long as it lives."""
    return folder / _LOCK


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


@contextmanager
def scratch_of_java(conf: Mapping[str, str]) -> Iterator[None]:
    """Put the temporary files of a Java process that is started within the context into a scratch folder.

    In local mode, the folder also has the Spark home (`make_spark_home`), unless SPARK_HOME is set. Both are passed
    by environment variables, since a later session of this process has another folder, and settings of sessions are compared. If
    Spark's local folders are set, they are used: they may be on a separate disk.

    Args:
        conf: Spark's settings.
    """
    sweep_scratch()
    folder = new_scratch()
    before = {name: os.environ.get(name) for name in ("SPARK_SUBMIT_OPTS", "SPARK_LOCAL_DIRS", "SPARK_HOME")}
    own = shlex.quote(f"-Djava.io.tmpdir={folder}")
    os.environ["SPARK_SUBMIT_OPTS"] = f"{before['SPARK_SUBMIT_OPTS'] or ''} {own}".strip()
    if "spark.local.dir" not in conf:
        os.environ.setdefault("SPARK_LOCAL_DIRS", str(folder))
    # On a cluster, workers run on other machines and have no such folder.
    if conf.get("spark.master", "").startswith("local") and before["SPARK_HOME"] is None:
        os.environ["SPARK_HOME"] = str(make_spark_home(folder))
    try:
        yield
    finally:
        # Otherwise child processes would use this folder, and lose it when this process ends.
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def make_spark_home(folder: Path) -> Path:
    """Make a Spark home without `python/lib/pyspark.zip`, with links to all other parts of the installed pyspark.

    Spark puts this zip first on the path of each Python process that it starts. Python does not cache the bytecode of modules in a
    zip, so each process compiled pyspark anew, in 0.6 to 0.8 processor seconds (benchmarks/results/performance.md).

    Args:
        folder: where to make it. It must exist as long as the Java process.

    Example:
        >>> make_spark_home(scratch)  # doctest: +SKIP
        PosixPath('/tmp/keyfold-scratch-x/spark-home')
    """
    home = folder / "spark-home"
    home.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        if part.name != "python":
            (home / part.name).symlink_to(part)
    return home


def _is_abandoned(folder: Path) -> bool:
    if not lock_of(folder).exists():
        # Created just now, or by a process that was killed before it had the lock.
        return time.time() - folder.stat().st_mtime > _AN_HOUR
    return not is_locked(lock_of(folder))


def _delete_own(folder: Path, process: int) -> None:
    if os.getpid() == process:  # a fork runs exit handlers too, and must not delete its parent's folder
        shutil.rmtree(folder, ignore_errors=True)
