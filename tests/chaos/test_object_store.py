"""A home in an object store that answers 503, is slow, breaks off or loses answers; and a run that stands still too long."""

import random
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.conftest import TRIES
from tests.chaos.launcher import Command, Launcher
from tests.chaos.story import END, INGEST, TOTALS, WINDOWS, Homes, expected, found
from tests.faulty_store import Fault, FaultyStore, faulty_store
from tests.object_store import ObjectStore

PROMISE = (
    "A home in an object store: each row once, whatever answers are lost, and whoever stood still beyond its lease."
)

REFUSALS = (Fault.DENIED, Fault.SKEWED)

SHORT = ["tests.chaos.hooks:short_leases"]


@pytest.fixture
def behind(object_store: ObjectStore, bucket: str) -> Iterator[FaultyStore]:
    with faulty_store(object_store.endpoint) as store:
        yield store


def from_folder(landed: Path) -> tuple[Command, ...]:
    """All work on a home that is elsewhere than what lands."""
    return ((*INGEST, "--from", str(landed / "landing" / "clicks")), TOTALS, WINDOWS)


# `tests/keyfold/storage/test_storage.py` meets each fault once in `make test`.
@pytest.mark.chaos
@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("tries", [max(1, TRIES // 5)])
def test_requests_that_fail_lose_and_double_nothing(
    launcher: Launcher, homes: Homes, tally, object_store: ObjectStore, bucket: str, behind, fault: Fault, tries: int
):
    told = tally(f"S3: {fault.value}")
    behind.delay = 0.3
    for number in range(tries):
        home, work = f"s3a://{bucket}/home-{number}", from_folder(homes.fresh)
        behind.choose = failing(fault, 3 + number * 2)
        before = behind.count(fault)
        code, run = launcher.run(home, *work, environment=object_store.environment(behind.endpoint), hooks=SHORT)
        assert code in (0, 1), run.said
        assert "Traceback" not in run.said, run.said
        # A store that refuses has damaged nothing, and whoever moved tables aside for it would lose work.
        assert fault not in REFUSALS or not re.search("damaged|rebuild|full-refresh|restore", run.said), run.said
        if code:
            # A run that may not write any more cannot give its lease back; the next one has to outwait it.
            time.sleep(4.5)
        code, run = launcher.run(home, *work, END, environment=object_store.environment(), hooks=SHORT)
        assert code == 0, run.said
        came = behind.count(fault) > before
        told.count(expected(homes.fresh), found(home), f"try {number}: {run.said}", came=came)


def failing(fault: Fault, every: int):
    """Every so many requests one fails; of the slow ones all writes are."""
    if fault is Fault.SLOW:
        return lambda request: fault if request.writes else None
    if fault in REFUSALS:
        # Refused is refused: from some request on, for good.
        return lambda request: fault if request.number > 20 * every else None
    return lambda request: fault if request.number % every == every - 1 else None


# `tests/keyfold/keyed/test_on_an_object_store.py` freezes and thaws drivers in `make test`.
@pytest.mark.chaos
@pytest.mark.parametrize("tries", [TRIES])
def test_a_run_that_stands_still_beyond_its_lease_and_goes_on_writes_nothing_twice(
    launcher: Launcher, homes: Homes, tally, object_store: ObjectStore, bucket: str, tries: int
):
    told, moments = tally("S3: the holder of a lease is frozen, and thawed after another run"), random.Random(2031)
    environment = object_store.environment()
    for number in range(tries):
        home, work = f"s3a://{bucket}/frozen-{number}", from_folder(homes.fresh)
        frozen = launcher.start(home, *work, environment=environment, hooks=SHORT)
        time.sleep(moments.uniform(0.3, 4))
        frozen.signal(signal.SIGSTOP)
        try:
            time.sleep(4.5)
            attempts = tuple(command for command in work for _ in range(2))
            code, run = launcher.run(home, environment=environment, hooks=SHORT, attempts=attempts)
            assert code == 0, run.said
        finally:
            frozen.signal(signal.SIGCONT)
        code = frozen.wait()
        assert code in (0, 1), frozen.said
        assert "Traceback" not in frozen.said, frozen.said
        code, run = launcher.run(home, *work, END, environment=environment, hooks=SHORT)
        assert code == 0, run.said
        told.count(expected(homes.fresh), found(home), f"try {number}: {frozen.said}")


def test_two_runs_on_a_home_in_an_object_store_do_the_work_once(
    launcher: Launcher, homes: Homes, tally, object_store: ObjectStore, bucket: str
):
    told, environment = tally("S3: two runs at once"), object_store.environment()
    home, work = f"s3a://{bucket}/two", from_folder(homes.fresh)
    runs = [launcher.start(home, environment=environment, hooks=SHORT, attempts=work) for _ in range(2)]
    for run in runs:
        assert run.wait() == 0
        assert "Traceback" not in run.said, run.said
    code, run = launcher.run(home, *work, END, environment=environment, hooks=SHORT)
    assert code == 0, run.said
    told.count(expected(homes.fresh), found(home), " ".join(run.said for run in runs))
