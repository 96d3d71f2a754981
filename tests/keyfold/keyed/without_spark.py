"""Runs without Spark (`keyfold.testing`), and cuts of the power at named points of them."""

import pytest

from keyfold.lakehouse import fail_points
from keyfold.runners import Runners

SPARK = Runners("local")
"""As much of a session as a run asks for outside of the query."""


class PowerCut(Exception):
    """Stands for a kill at one moment."""


class Cut:
    """Cuts the power at the n-th time that a point is reached."""

    def __init__(self, point, count=1):
        self._point, self._left = point, count

    def __call__(self, point):
        if point == self._point:
            self._left -= 1
            if self._left == 0:
                raise PowerCut(point)


@pytest.fixture
def without_spark():
    """The session of runs without Spark."""
    return Runners("local")


@pytest.fixture
def cut_power(monkeypatch):
    """Cut the power at a point while a function runs; gives whether it came to that."""

    def cut(point, run, count=1):
        with monkeypatch.context() as patch:
            patch.setattr(fail_points, "act", Cut(point, count))
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
