"""What Keyfold writes is its user's alone: tables, state, logs and temporary files hold rows."""

import os

_OTHERS = 0o077


def keep_files_private() -> None:
    """Have this process, and all that it starts, make files and folders that nobody else may read, write or enter.

    Called where a process of Keyfold's begins: the command line, the loading of definitions, the servers of `make ui`.
    Java and Spark's workers inherit it; on a cluster, the executors are started by somebody else, whose umask counts.
    """
    os.umask(os.umask(_OTHERS) | _OTHERS)
