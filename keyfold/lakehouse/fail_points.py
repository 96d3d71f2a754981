"""Fail points: named places between two writes that must agree, at which tests kill a run or make it fail.

KEYFOLD_FAIL_AT=<point>[#n] kills the process (SIGKILL) when it reaches the point for the n-th time. Tests that run in one
process replace `act` instead.
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
    "changes: written",
    "state: manifests written",
    "done: before",
    "done: after",
    "commit: before",
    "commit: one table",
    "merge: rows written",
    "replace: rows written",
    "commit: after",
    "generation: tables made",
    "generation: created",
    "fill: tables carried",
    "fill: source ready",
    "fill: state written",
    "promote: renamed",
    "generation: before it goes live",
    "generation: live",
    "going live: files linked",
    "going live: table replaced",
    "going live: one job",
    "journal: records archived",
    "journal: history written",
    "journal: old records removed",
    "rebuild: one table moved",
    "rebuild: moved",
    "rewrite: plans withdrawn",
    "rewrite: files written",
    "rewrite: decided",
    "rewrite: events changed",
    "rewrite: quarantine changed",
    "rewrite: ids known",
    "rewrite: audited",
    "rewrite: applied",
    "rewrite: ended",
    "maintenance: files joined",
    "maintenance: files deleted",
    "sink: before",
    "sink: sent",
    "sink: committed",
)
"""All fail points: first those of a batch, then of a generation, then of other commands."""

_reached: Counter[str] = Counter()


def _kill(point: str) -> None:
    wanted, _, count = os.environ.get(VARIABLE, "").rpartition("#")
    wanted, count = (wanted, count) if wanted else (count, "1")
    if point == wanted:
        _reached[point] += 1
        if _reached[point] == int(count):
            # A signal and not an exception: as in a power cut, no clean-up code may run.
            os.kill(os.getpid(), signal.SIGKILL)


act: Callable[[str], None] = _kill


def fail_point(point: str) -> None:
    """Mark a fail point. Does nothing unless a test asks for it."""
    act(point)
