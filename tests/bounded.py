"""Run a command for at most so many seconds: `python tests/bounded.py SECONDS COMMAND…`. Nothing that it started outlives it.

Only the standard library is used: `.ci/run` calls this before `.venv` is there. On Linux this process adopts orphans
(PR_SET_CHILD_SUBREAPER), so that a daemon in a session of its own is found too; elsewhere only the command itself is ended.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

TIMED_OUT = 124
"""The exit code of a command that took too long, as of the program `timeout`."""

_ADOPT_ORPHANS = 36  # of Linux' <sys/prctl.h>
_GRACE = float(os.environ.get("BOUNDED_GRACE", "30"))
"""Seconds that a process has to end after it was asked to."""


def run(seconds: float, command: list[str]) -> int:
    """Run a command, and end all that it started.

    Returns:
        its exit code, or `TIMED_OUT`.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_ADOPT_ORPHANS, 1, 0, 0, 0)
    child = subprocess.Popen(command)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: child.terminate())
    # A terminal sends it to the command too, which ends in its own way.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        code = child.wait(seconds)
    except subprocess.TimeoutExpired:
        print(
            f"bounded: {command[0]} ran for more than {seconds:.0f} seconds and is ended", file=sys.stderr, flush=True
        )
        # So asked, pytest prints the results that it has.
        child.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            child.wait(_GRACE)
        code = TIMED_OUT
    _end_descendants()
    return code if code >= 0 else 128 - code


def _end_descendants() -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        end = time.monotonic() + _GRACE
        left = descendants(os.getpid())
        for process, command in left.items():
            print(f"bounded: ends process {process}, which was left: {command}", file=sys.stderr, flush=True)
            with suppress(ProcessLookupError):
                os.kill(process, number)
        while left and time.monotonic() < end:
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            left = descendants(os.getpid())
            time.sleep(0.1)


def descendants(ancestor: int) -> dict[int, str]:
    """The living processes that descend from one, with their commands; none where there is no `/proc`."""
    parents = dict[int, int]()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                parents[int(stat.parent.name)] = int(parent)
    found = dict[int, str]()
    for process in parents:
        at = process
        while at in parents and at != ancestor:
            at = parents[at]
        if at == ancestor != process:
            with suppress(OSError):
                found[process] = Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode()[:200]
    return found


if __name__ == "__main__":
    sys.exit(run(float(sys.argv[1]), sys.argv[2:]))
