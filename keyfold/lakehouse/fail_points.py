"""Named moments at which a test kills a run or makes it fail: each lies between two writes that must agree.

KEYFOLD_FAIL_AT=<point>[#n] kills the process (SIGKILL) when it reaches the point for the n-th time; nothing else looks
at it. Tests in one process put a function of their own in place of `act`.
"""

import os
import signal
from collections import Counter
from collections.abc import Callable

VARIABLE = "KEYFOLD_FAIL_AT"

POINTS = (
    "plan: before",
    "plan: one of several",
    "plan: after",
    "work: before",
    "work: files written",
    "work: after",
    "done: before",
    "done: after",
    "commit: before",
    "commit: one table",
    "merge: rows written",
    "commit: after",
    "generation: tables made",
    "generation: born",
    "seed: staged",
    "seed: tables carried",
    "seed: taken in",
    "promote: renamed",
    "generation: before it goes live",
    "generation: live",
    "journal: history written",
    "journal: old records removed",
    "rebuild: one table moved",
    "rebuild: moved",
    "erasure: files written",
    "erasure: committed",
    "maintenance: files joined",
    "maintenance: files deleted",
    "sink: before",
    "sink: sent",
    "sink: committed",
)
"""Every point, in the order of a batch, then of a generation, then of what is done beside."""

_reached: Counter[str] = Counter()


def _kill(point: str) -> None:
    wanted, _, count = os.environ.get(VARIABLE, "").rpartition("#")
    wanted, count = (wanted, count) if wanted else (count, "1")
    if point == wanted:
        _reached[point] += 1
        if _reached[point] == int(count):
            # Not an exception: as with a power cut, nothing may tidy up.
            os.kill(os.getpid(), signal.SIGKILL)


act: Callable[[str], None] = _kill


def reached(point: str) -> None:
    """Say that a point was reached; does nothing unless a test asks for it."""
    act(point)
