"""Cuts of the power at named points of a run: the process goes on, and what it has left is as after a kill."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest

from keyfold.lakehouse import fail_points

OF_INGEST = [point for point in fail_points.POINTS if point.partition(":")[0] in ("plan", "work", "done", "commit")]
"""The points that a run of ingest passes."""


class PowerCut(Exception):
    """Stands for a kill at one moment."""


class Cut:
    """Cuts the power at the n-th time that a point is reached."""

    def __init__(self, point: str, count: int = 1) -> None:
        self._point, self._left = point, count

    def __call__(self, point: str) -> None:
        if point == self._point:
            self._left -= 1
            if self._left == 0:
                raise PowerCut(point)


@contextmanager
def power_cut_at(point: str, count: int = 1) -> Iterator[None]:
    """See that the power is cut at the n-th time that a point is reached in the block."""
    with patch.object(fail_points, "act", Cut(point, count)), pytest.raises(PowerCut):
        yield


@pytest.fixture
def cut_power(monkeypatch: pytest.MonkeyPatch) -> Callable[..., bool]:
    """Cut the power at a point while a function runs; gives whether it came to that."""

    def cut(point: str, run: Callable[[], object], count: int = 1) -> bool:
        with monkeypatch.context() as patched:
            patched.setattr(fail_points, "act", Cut(point, count))
            try:
                run()
            except Exception as error:
                if (
                    "PowerCut" not in repr(error)
                    and not isinstance(error.__cause__, PowerCut)
                    and point not in str(error)
                ):
                    raise
                return True
        return False

    return cut


OF_A_BATCH = [
    point for point in fail_points.POINTS if point.startswith(("plan", "work", "state", "done", "commit", "merge"))
]


def points_of(monkeypatch, work):
    """The points that a command comes to, each with how often it had come to it."""
    passed, seen = [], Counter()

    def act(point):
        seen[point] += 1
        passed.append((point, seen[point]))

    with monkeypatch.context() as patch:
        patch.setattr(fail_points, "act", act)
        work()
    return passed
