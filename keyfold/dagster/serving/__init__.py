"""Serve Dagster's pages and run its daemon (`make ui`): `__main__` is the command, `gate` admits users with the link."""

import re
from pathlib import Path

import dagster as dg

from keyfold.errors import KeyfoldError, first_line
from keyfold.storage.disk_path import DiskPath

_UNSET = re.compile(r'environment variable "(\w+)" which is not set')
_OURS = Path(__file__).parents[1] / "dagster.yaml"


def open_dagster_home(home: Path) -> dg.DagsterInstance:
    """Open DAGSTER_HOME, and create it with Keyfold's dagster.yaml; an existing file is its user's, and not changed.

    Args:
        home: the folder.

    Raises:
        KeyfoldError: Dagster cannot use it: its disk is full, it belongs to another user, or its dagster.yaml is wrong.

    Example:
        >>> open_dagster_home(Path(".keyfold/dagster"))  # doctest: +SKIP
    """
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (home / "dagster.yaml").exists():
            DiskPath(home / "dagster.yaml").write_whole(_OURS.read_bytes())
        return dg.DagsterInstance.from_config(str(home))
    except Exception as error:
        # Of a database's error the driver's, which does not quote the statement.
        cause = error.__cause__ or error
        unset = sorted(set(_UNSET.findall(str(error))))
        reason = f"{', '.join(unset)} not set" if unset else first_line(getattr(cause, "orig", cause))
        raise KeyfoldError(
            f"DAGSTER_HOME {home} cannot be used: {reason}; check its dagster.yaml, and that its disk has free space and this "
            "user may write there"
        ) from error
