"""Wait for what another process or thread does."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Found = TypeVar("Found")


def wait_until(
    found: Callable[[], Found], otherwise: str | Callable[[], object] = "it did not come to that", seconds: float = 240
) -> Found:
    """Ask again and again until the answer is true, and return it.

    Args:
        found: what is asked.
        otherwise: what a test says that waited in vain.
        seconds: how long to wait.
    """
    end, pause = time.monotonic() + seconds, 0.01
    while not (answer := found()):
        assert time.monotonic() < end, otherwise() if callable(otherwise) else otherwise
        # What takes long may also be dear to ask.
        time.sleep(pause)
        pause = min(0.25, 1.2 * pause)
    return answer


def lives(process: int) -> bool:
    """Whether a process runs; one that has ended and that nobody has waited for does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
