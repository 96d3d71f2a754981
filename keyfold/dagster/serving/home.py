"""Dagster's home: the project's dagster.yaml is put there once, and is the user's from then on."""

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from keyfold.errors import KeyfoldError, first_line

_OURS = Path(__file__).parents[1] / "dagster.yaml"

_OPENING = """
import sys
from dagster import DagsterInstance
from keyfold.dagster.serving.home import reason_of
try:
    DagsterInstance.get().dispose()
except Exception as error:
    sys.exit(reason_of(error))
"""


def prepare_dagster_home(home: Path) -> str | None:
    """Make Dagster's home where it is not there, with the project's dagster.yaml; one that is there stays as it is.

    Args:
        home: DAGSTER_HOME.

    Returns:
        What to tell people where the home's dagster.yaml is another one, None where it is the project's.

    Raises:
        KeyfoldError: the home cannot be written or read: its disk is full, or it is another user's.
    """
    settings, ours = home / "dagster.yaml", _OURS.read_bytes()
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not settings.exists():
            _put(settings, ours)
        if settings.read_bytes() == ours:
            return None
    except OSError as error:
        raise unusable(home, error) from error
    return (
        f"{settings} is not the project's and is left as it is; `diff {shlex.quote(str(settings))} "
        f"{shlex.quote(str(_OURS))}` tells the differences; remove it, and the project's is put there"
    )


def make_databases(home: Path) -> None:
    """Have Dagster make its databases in a new home, before several servers would each begin to.

    Raises:
        KeyfoldError: Dagster cannot use the home.
    """
    if (home / "history" / "runs" / "index.db").exists():
        return
    # In a process of its own: who serves pages need not carry Dagster.
    environment = {**os.environ, "DAGSTER_HOME": str(home)}
    opened = subprocess.run(
        [sys.executable, "-c", _OPENING], env=environment, stderr=subprocess.PIPE, text=True, check=False
    )
    if opened.returncode:
        raise unusable(home, (opened.stderr.strip().splitlines() or ["no reason was given"])[-1])


def unusable(home: Path, why: BaseException | str) -> KeyfoldError:
    """What to say where Dagster's home cannot be used.

    Args:
        home: DAGSTER_HOME.
        why: the system's error, or a database's, or its words.
    """
    return KeyfoldError(
        f"DAGSTER_HOME {home} cannot be used: {why if isinstance(why, str) else reason_of(why)}; see that its disk has room "
        "and that this user may write there"
    )


def reason_of(error: BaseException) -> str:
    """An error in a line: of a database's, which quotes the statement and its values, the driver's own words."""
    said = getattr(error, "orig", None) or getattr(error, "strerror", None) or error
    return first_line(said) if isinstance(said, BaseException) else str(said)


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
