"""Temporary files of the tests lie in memory, where there is enough of it.

A suite has files made durable by the tens of thousands: each plan, done record and state of a batch, each commit of Dagster's
databases. On a disk each of them is waited for; in memory it costs next to nothing, and what is asked of the system, and
in which order, is the same. TMPDIR, where somebody has set it, holds.
"""

import os
import tempfile
from pathlib import Path

IN_MEMORY = Path("/dev/shm")  # noqa: S108 - what is made in it is made by `tempfile` and pytest, each with its own names
NEEDED = 6 * 2**30
"""Bytes that must be free, of the folder's and of the machine's memory."""


def use_memory(folder: Path = IN_MEMORY, needed: int = NEEDED) -> None:
    """Have this process and its children make temporary files in a folder in memory, unless it is small."""
    if "TMPDIR" not in os.environ and has_room(folder, needed):
        os.environ["TMPDIR"] = str(folder)
        tempfile.tempdir = None


def has_room(folder: Path, needed: int) -> bool:
    """Whether files may be made, and libraries loaded, from a folder that has so many bytes free, and the machine too."""
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        return False
    system = os.statvfs(folder)
    # Java and the tests themselves load libraries that they have put among their temporary files.
    if system.f_flag & os.ST_NOEXEC:
        return False
    memory = Path("/proc/meminfo")
    lines = dict(line.split(":") for line in memory.read_text().splitlines()) if memory.exists() else {}
    available = int(lines.get("MemAvailable", "0 kB").split()[0]) * 1024
    return min(system.f_bavail * system.f_frsize, available) >= needed
