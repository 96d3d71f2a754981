"""Make the files that Keyfold writes readable by its user only: tables, state, logs and temporary files hold rows."""

import os

_OTHERS = 0o077


def keep_files_private() -> None:
    """Set the umask, so that this process and its children create files and folders that only their user can access.

    Each entry point of Keyfold calls it: the command line, the loading of definitions, the servers of `make ui`. Java and
    Spark's workers inherit it. On a cluster, the executors have the umask of the cluster manager.
    """
    os.umask(os.umask(_OTHERS) | _OTHERS)
