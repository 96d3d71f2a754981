"""What Keyfold writes is its user's alone: tables, state, logs and temporary files hold rows."""

import os
from pathlib import Path

_OTHERS = 0o077


def keep_files_private() -> None:
    """Have this process, and all that it starts, make files and folders that nobody else may read, write or enter.

    Called where a process of Keyfold's begins: the command line, the loading of definitions, the servers of `make ui`.
    Java and Spark's workers inherit it; on a cluster, the executors are started by somebody else, whose umask counts.
    """
    os.umask(os.umask(_OTHERS) | _OTHERS)


def write_private(file: Path, text: str) -> None:
    """Write a file that its user alone can read, whoever made one of that name before, and with what mode."""
    # What is there may be a link, or open to somebody: it is not written to.
    file.unlink(missing_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        opened.write(text)
