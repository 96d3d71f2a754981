"""Create DAGSTER_HOME with the project's dagster.yaml; an existing file is not changed."""

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
    """Create DAGSTER_HOME with the project's dagster.yaml, unless they exist.

    Args:
        home: DAGSTER_HOME.

    Returns:
        A note for people if the home has another dagster.yaml, else None.

    Raises:
        KeyfoldError: the home cannot be written or read: its disk is full, or it belongs to another user.
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
        f"{settings} differs from the project's and is not changed; `diff {shlex.quote(str(settings))} "
        f"{shlex.quote(str(_OURS))}` shows the differences; delete it to get the project's"
    )


def make_databases(home: Path) -> None:
    """Create Dagster's databases in a new home, before several servers would create them at once.

    Raises:
        KeyfoldError: Dagster cannot use the home.
    """
    if (home / "history" / "runs" / "index.db").exists():
        return
    # In a child process, so that this one need not import Dagster.
    environment = {**os.environ, "DAGSTER_HOME": str(home)}
    opened = subprocess.run(
        [sys.executable, "-c", _OPENING], env=environment, stderr=subprocess.PIPE, text=True, check=False
    )
    if opened.returncode:
        raise unusable(home, (opened.stderr.strip().splitlines() or ["no reason was given"])[-1])


def unusable(home: Path, why: BaseException | str) -> KeyfoldError:
    """Build the error that DAGSTER_HOME cannot be used.

    Args:
        home: DAGSTER_HOME.
        why: an error of the system or of a database, or its message.
    """
    return KeyfoldError(
        f"DAGSTER_HOME {home} cannot be used: {why if isinstance(why, str) else reason_of(why)}; check that its disk has free "
        "space and that this user may write there"
    )


def reason_of(error: BaseException) -> str:
    """Return an error's message in one line; for a database error, the driver's, which does not quote the statement."""
    reason = getattr(error, "orig", None) or getattr(error, "strerror", None) or error
    return first_line(reason) if isinstance(reason, BaseException) else str(reason)


def _put(settings: Path, content: bytes) -> None:
    # Not `write_durably`, which would replace a file that a user puts there meanwhile.
    descriptor, aside = tempfile.mkstemp(dir=settings.parent, prefix=".dagster.yaml.")
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    try:
        os.link(aside, settings)  # fails if the file exists by now, and never leaves half a file
    except FileExistsError:
        pass
    finally:
        os.unlink(aside)
