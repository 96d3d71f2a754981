"""Run a command in a process of its own, to its good end."""

import subprocess
from collections.abc import Mapping
from pathlib import Path


def ended_well(
    *command: object, folder: Path | None = None, environment: Mapping[str, str] | None = None, seconds: float = 900
) -> "subprocess.CompletedProcess[str]":
    """Run a command and return what it wrote; one that fails fails the test with it.

    Args:
        command: its words.
        folder: where it runs.
        environment: all of its variables; by default those of this process.
        seconds: how long it may take.
    """
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr
    return done
