"""Disks that fill up, and what a run may say of one."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.chaos.launcher import Run


def is_said(run: Run, code: int, reason: str) -> None:
    """It ended well, since that write did not matter, or with one message that says why."""
    assert code in (0, 1), run.said
    assert "Traceback" not in run.said
    # Delta's own library does not always pass the reason on.
    assert code == 0 or ("error:" in run.said and (reason in run.said or "Could not" in run.said)), run.said


@contextmanager
def fill(disk: Path, left: int) -> Iterator[None]:
    """Fill a disk but for so many kilobytes."""
    ballast = disk / "ballast"
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(disk).free - left * 1024)
    yield
    ballast.unlink()


@contextmanager
def mounted(folder: Path, megabytes: int) -> Iterator[Path]:
    """Mount a disk of so many megabytes below a folder; skips the test where that is not allowed."""
    disk = folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(disk)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("no small disk can be mounted here: it takes root")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)
