"""Dagster's home: the project's dagster.yaml is put there once, and is the user's from then on."""

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

_OURS = Path(__file__).parents[1] / "dagster.yaml"


def prepare_dagster_home(home: Path) -> str | None:
    """Make Dagster's home where it is not there, with the project's dagster.yaml; one that is there stays as it is.

    Args:
        home: DAGSTER_HOME.

    Returns:
        What to tell people where the home's dagster.yaml is another one, None where it is the project's.
    """
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    settings, ours = home / "dagster.yaml", _OURS.read_bytes()
    if not settings.exists():
        _put(settings, ours)
    if settings.read_bytes() == ours:
        return None
    return (
        f"{settings} is not the project's and is left as it is; `diff {shlex.quote(str(settings))} "
        f"{shlex.quote(str(_OURS))}` tells the differences; remove it, and the project's is put there"
    )


def make_databases(home: Path) -> None:
    """Have Dagster make its databases in a new home, before several servers would each begin to.

    Raises:
        CalledProcessError: Dagster cannot use the home; what it says has been printed.
    """
    if (home / "history" / "runs" / "index.db").exists():
        return
    # In a process of its own: who serves pages need not carry Dagster.
    opening = "from dagster import DagsterInstance; DagsterInstance.get().dispose()"
    subprocess.run([sys.executable, "-c", opening], env={**os.environ, "DAGSTER_HOME": str(home)}, check=True)


def _put(settings: Path, content: bytes) -> None:
    # By hand, and not by `write_durably`: that one replaces what is there, and here a user's file must win.
    descriptor, aside = tempfile.mkstemp(dir=settings.parent, prefix=".dagster.yaml.")
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    try:
        os.link(aside, settings)  # fails where somebody was faster, and never leaves half a file
    except FileExistsError:
        pass
    finally:
        os.unlink(aside)
