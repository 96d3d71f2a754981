"""What every kind of fault needs: processes to break, homes to break them on, and a tally."""

import os
from collections.abc import Callable, Iterator

import pytest

from tests.chaos.launcher import Launcher, build, why_not
from tests.chaos.story import Homes
from tests.chaos.tally import Tally

TRIES = int(os.environ.get("TRIES", "10"))
"""How often what is tried at random is tried, in the long form."""


@pytest.fixture(scope="session")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    if reason := why_not():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("chaos")
    launcher = Launcher(build(folder), folder)
    yield launcher
    launcher.close()


@pytest.fixture(scope="session")
def homes(launcher: Launcher, tmp_path_factory: pytest.TempPathFactory) -> Homes:
    return Homes(launcher, tmp_path_factory.mktemp("homes"))


@pytest.fixture
def tally(request: pytest.FixtureRequest, record_property) -> Iterator[Callable[[str], Tally]]:
    """Begin to count a kind of fault; the module's PROMISE is what it is held to. Judged at the test's end."""
    tallies: list[Tally] = []

    def begin(fault: str) -> Tally:
        tallies.append(Tally(request.module.PROMISE, fault))
        return tallies[-1]

    failed_before = request.session.testsfailed
    yield begin
    for one in tallies:
        record_property("fault", (one.promise, one.fault, one.numbers))
    if request.session.testsfailed == failed_before:
        for one in tallies:
            one.judge()
