"""Make the files that Keyfold writes readable by its user only: tables, state, logs and temporary files hold rows."""

import os
from pathlib import Path

_OTHERS = 0o077


def keep_files_private() -> None:
    """Set the umask, so that this process and its children create files and folders that only their user can access.

    Each entry point of Keyfold calls it: the command line, the loading of definitions, the servers of `make ui`. Java and
    Spark's workers inherit it. On a cluster, the executors have the umask of the cluster manager.
    """
    os.umask(os.umask(_OTHERS) | _OTHERS)


def write_private(file: Path, text: str) -> None:
    """Write a file that only its user can read; it replaces an existing file."""
    # An existing file may be a link, or may be open in another process: never write to it.
    file.unlink(missing_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        opened.write(text)
