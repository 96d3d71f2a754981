"""Allow one process of a kind per DAGSTER_HOME, by a lock that the process holds as long as it lives."""

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from platform import node

from keyfold.dagster.serving.home import unusable
from keyfold.errors import Misconfigured
from keyfold.machine.locks import A_LOOK, open_lock, take


def become_the_only_one(what: str) -> Path:
    """Wait for the lock `<what>.lock` and keep it; a program that this process executes keeps it too.

    Args:
        what: the kind of process, such as `daemon`.

    Returns:
        DAGSTER_HOME.

    Raises:
        KeyfoldError: DAGSTER_HOME is not set, is not a folder, or cannot be written.
    """
    home = os.environ.get("DAGSTER_HOME")
    if not home or not Path(home).is_dir():
        raise Misconfigured(f"DAGSTER_HOME is {home or 'not set'}: set it to the folder that Dagster keeps its runs in")
    try:
        _hold(home, what)
    except OSError as error:
        raise unusable(Path(home), error) from error
    return Path(home)


def _hold(home: str, what: str) -> None:
    descriptor = open_lock(Path(home) / f"{what}.lock")
    try:
        take(descriptor, seconds=A_LOOK)
    except BlockingIOError:
        held_by = os.pread(descriptor, 200, 0).decode(errors="replace").strip() or "another process"
        _say(f"the {what} of {home} is already running ({held_by}): this one waits, and takes over when it ends")
        take(descriptor)
        _say(f"the {what} of {home} has ended: this one takes over")
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"process {os.getpid()} on {node()} since {datetime.now(UTC):%Y-%m-%d %H:%M} UTC".encode(), 0)
    # Kept across exec, but not by that program's children.
    os.set_inheritable(descriptor, True)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
