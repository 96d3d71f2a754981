"""Serve Dagster's pages and run its daemon (`make ui`): `__main__` is the command, `gate` admits users with the link."""

import re
from pathlib import Path

import dagster as dg

from keyfold.errors import KeyfoldError, first_line
from keyfold.lakehouse.files import write_whole

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
            write_whole(home / "dagster.yaml", _OURS.read_bytes())
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


def show_on_timeline(instance: dg.DagsterInstance, run_id: str, location: str) -> None:
    """Let Dagster's first page show a run that a script executed: it leaves out runs that no code location is known of.

    Args:
        instance: the instance that recorded the run.
        run_id: the run.
        location: the name of the code location whose definitions it executed.
    """
    from dagster._core.remote_origin import (  # noqa: PLC0415 - private: there is no public way
        RegisteredCodeLocationOrigin,
        RemoteJobOrigin,
        RemoteRepositoryOrigin,
    )

    run = instance.get_run_by_id(run_id)
    if run is not None:
        repository = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin(location), "__repository__")
        instance.run_storage.replace_job_origin(run, RemoteJobOrigin(repository, run.job_name))
