"""One process of a kind for each DAGSTER_HOME: a lock in the home, which a process holds for as long as it lives."""

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from platform import node

from keyfold.dagster.serving.home import unusable
from keyfold.errors import Misconfigured
from keyfold.machine.locks import A_LOOK, open_lock, take


def become_the_only_one(what: str) -> Path:
    """Hold the lock `<what>.lock` from now on, as soon as nobody else does; what this process becomes holds it on.

    Args:
        what: the daemon, or the alerts.

    Returns:
        DAGSTER_HOME.

    Raises:
        KeyfoldError: DAGSTER_HOME is not set, is no folder, or cannot be written.
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
        _say(f"the {what} of {home} runs already ({held_by}): this one is passive, and takes over when that one ends")
        take(descriptor)
        _say(f"the {what} of {home} has ended: this one takes over")
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"process {os.getpid()} on {node()} since {datetime.now(UTC):%Y-%m-%d %H:%M} UTC".encode(), 0)
    # What this process becomes holds it on; what that starts does not.
    os.set_inheritable(descriptor, True)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
