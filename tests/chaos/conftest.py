"""What every kind of fault needs: processes to break, and homes to break them on."""

import os
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from tests.chaos.launcher import REPOSITORY, Launcher, build, why_not
from tests.chaos.story import Homes

TRIES = int(os.environ.get("TRIES", "10"))
"""How often what is tried at random is tried, in the long form."""


def in_short(few: Iterable[Any], of: Iterable[Any]) -> list[Any]:
    """Parameters of a test: a few of them in `make test`, all in `make chaos`."""
    few = list(few)
    return [pytest.param(one, marks=() if one in few else pytest.mark.chaos) for one in of]


@pytest.fixture(scope="session")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    if reason := why_not():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("chaos")
    launcher = Launcher(build(folder), folder)
    yield launcher
    launcher.close()


@pytest.fixture(scope="session")
def with_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    """Starts runs that each have a Spark of their own."""
    if reason := why_not():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("with-spark")
    environment = {"KEYFOLD_RUNNER": "spark", "KEYFOLD_SPARK_MASTER": "local[2]", "PYTHONPATH": str(REPOSITORY)}
    launcher = Launcher(build(folder), folder, environment)
    yield launcher
    launcher.close()


@pytest.fixture(scope="session")
def homes(launcher: Launcher, tmp_path_factory: pytest.TempPathFactory) -> Homes:
    return Homes(launcher, tmp_path_factory.mktemp("homes"))
