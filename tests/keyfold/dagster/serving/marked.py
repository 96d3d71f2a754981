"""Processes known by a variable of their environment, whoever their parent, group and session are."""

import os
import subprocess
import time
import uuid
from contextlib import suppress
from pathlib import Path

VARIABLE = "KEYFOLD_TEST_MARK"


def new_mark() -> str:
    return uuid.uuid4().hex


def marked(mark: str) -> dict[int, str]:
    """The living processes that have inherited a mark, with their commands."""
    wanted, found = f"{VARIABLE}={mark}", dict[int, str]()
    if not Path("/proc/self/environ").exists():
        told = subprocess.run(["ps", "-axEww", "-o", "pid=,command="], capture_output=True, text=True, check=True)
        rows = [line.split(maxsplit=1) for line in told.stdout.splitlines() if wanted in line]
        return {int(process): command for process, command in rows}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if wanted.encode() in Path("/proc", name, "environ").read_bytes().split(b"\0"):
                # Nothing of a process that has ended and is yet to be waited for can be read.
                found[int(name)] = Path("/proc", name, "cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


def none_is_left(mark: str, seconds: float) -> bool:
    """Whether all processes of a mark are gone, at the latest after so many seconds."""
    end = time.monotonic() + seconds
    while marked(mark):
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def kill_all(mark: str) -> None:
    for process in marked(mark):
        with suppress(ProcessLookupError):
            os.kill(process, 9)
