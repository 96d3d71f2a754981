"""A home in an object store that answers 503, is slow, breaks off or loses answers; and a run that stands still too long."""

import itertools
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from keyfold.lakehouse import fail_points
from keyfold.storage.place import to_place
from tests.chaos.conftest import TRIES, in_short
from tests.chaos.launcher import Command, Launcher, Run
from tests.chaos.story import END, INGEST, TOTALS, WINDOWS, WORK, Homes, expected, found
from tests.chaos.tally import Tally
from tests.faulty_store import Fault, FaultyStore, faulty_store
from tests.folders import copy_folder
from tests.object_store import ObjectStore
from tests.waiting import wait_until

PROMISE = (
    "A home in an object store: each row once, whatever answers are lost, and whoever stood still beyond its lease."
)

REFUSALS = (Fault.DENIED, Fault.SKEWED)

SHORT, WHOLE = ["tests.chaos.hooks:short_leases"], "tests.chaos.hooks:whole_runs"
BROKEN_OFF = {fail_points.VARIABLE: "work: after"}
LEASE_IS_OVER = 4.5
"""Seconds after which a lease of two seconds is surely over."""

POINTS = [
    point
    for point in fail_points.POINTS
    if point.startswith(("plan", "work", "state", "done", "commit", "merge", "generation"))
]
SOME_OR_ALL = pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.chaos)])
"""`make test` stops a run at each eighth place, `make chaos` at each one."""


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
            time.sleep(LEASE_IS_OVER)
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


@pytest.fixture(scope="module")
def landed(homes: Homes) -> Path:
    """Where clicks of four files have landed."""
    return homes.copy(homes.running)


@pytest.fixture(scope="module")
def made(launcher: Launcher, object_store: ObjectStore, landed: Path) -> str:
    """A home in a bucket where all work is done but that `totals` has two files more to read."""
    home = f"s3a://{object_store.new_bucket()}/made"
    ingest, totals, windows = from_folder(landed)
    later = [file.rename(landed / file.name) for file in sorted((landed / "landing" / "clicks").iterdir())[2:]]
    # What is new to `totals` is in two files, which are two batches.
    for commands, hooks in (((ingest, totals), [WHOLE]), ((ingest, windows, END), ())):
        code, run = launcher.run(home, *commands, environment=object_store.environment(), hooks=hooks)
        assert code == 0, run.said
        for file in later:
            if file.exists():
                file.rename(landed / "landing" / "clicks" / file.name)
    return home


@pytest.fixture
def on_store(made: str, bucket: str) -> Callable[[], str]:
    """Makes homes like that one."""

    def copy() -> str:
        home = f"{made}-{next(_numbers)}"
        copy_folder(to_place(made), to_place(home))
        return home

    return copy


_numbers = itertools.count()


@pytest.fixture
def mend(launcher: Launcher, object_store: ObjectStore, landed: Path) -> Callable[[Tally, str, str], None]:
    """Ends all work on a home whose leases are over, and counts."""

    def mend(told: Tally, home: str, what: str) -> None:
        code, run = launcher.run(home, TOTALS, environment=object_store.environment(), hooks=[*SHORT, WHOLE])
        assert code == 0, run.said
        told.count(expected(landed), found(home), what)

    return mend


@SOME_OR_ALL
def test_a_run_that_is_killed_at_any_point_is_made_good_once_its_lease_is_over(
    launcher: Launcher, object_store: ObjectStore, on_store, mend, tally, every: int
):
    told, environment = tally("S3: killed at each named point"), object_store.environment()
    killed: list[tuple[str, str, int]] = []
    for point in POINTS[::every]:
        home, more = on_store(), ("--full-refresh",) if point.startswith("generation") else ()
        kill = environment | {fail_points.VARIABLE: f"{point}#1"}
        code, run = launcher.run(home, (*TOTALS, *more), environment=kill, hooks=SHORT)
        assert code == -signal.SIGKILL, f"{point}: {run.said}"
        killed.append((home, point, run.pid))
    # Its lease is known by who holds it, until it ends.
    home, _, holder = killed[-1]
    code, other = launcher.run(home, TOTALS, environment=environment, hooks=SHORT)
    assert code == 1, other.said
    assert re.search(f"job totals is already running on .* process {holder}, lease renewed", other.said)
    time.sleep(LEASE_IS_OVER)
    for home, point, _ in killed:
        mend(told, home, point)


@SOME_OR_ALL
@pytest.mark.parametrize("command", in_short([TOTALS], [TOTALS, (*TOTALS, "--full-refresh")]))
def test_a_run_that_is_frozen_before_any_of_its_writes_and_thawed_behind_another_harms_nothing(
    launcher: Launcher, object_store: ObjectStore, on_store, mend, tally, command: Command, every: int
):
    told = tally(f"S3: frozen before each write of a run ({command[-1]})")
    frozen: list[tuple[int, str, Run]] = []
    for number in itertools.count(step=every):
        home = on_store()
        run = freeze(launcher, object_store, home, command, number)
        if run is None:
            break
        frozen.append((number, home, run))
    assert len(frozen) >= 1
    time.sleep(LEASE_IS_OVER)
    for number, home, run in frozen:
        code, other = launcher.run(home, command, environment=object_store.environment(), hooks=SHORT)
        assert code == 0, other.said
        run.signal(signal.SIGCONT)
        code = run.wait()
        # The last two are the clock and the checksums: behind the clock there may be nothing left to write, and so no look.
        assert code == 1 or number >= frozen[-1][0] - 1, (number, run.said)
        assert code == 0 or "job totals: this run has lost its lease" in run.said, run.said
        mend(told, home, f"frozen before write {number}: {run.said}")


def freeze(launcher: Launcher, store: ObjectStore, home: str, command: Command, number: int) -> Run | None:
    """A run that is frozen before its write of a number; none where it ends well before that."""
    environment = store.environment() | {"FREEZE": str(number)}
    run = launcher.start(home, command, environment=environment, hooks=[*SHORT, "tests.chaos.hooks:freeze_behind_look"])
    is_frozen = wait_until(lambda: state_of(run.pid) in "TZ" and state_of(run.pid)) == "T"
    assert is_frozen or run.wait() == 0, run.said
    return run if is_frozen else None


def state_of(process: int) -> str:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_run_that_is_frozen_and_thawed_amid_the_planning_of_another_harms_nothing(
    launcher: Launcher, object_store: ObjectStore, on_store, mend, tally
):
    """The first is frozen before it writes its last plan; the other comes in between, and both are refused or done."""
    home = on_store()
    run = freeze(launcher, object_store, home, TOTALS, 1)
    assert run is not None
    time.sleep(LEASE_IS_OVER)
    environment = object_store.environment() | {"THAW": str(run.pid)}
    code, other = launcher.run(
        home, TOTALS, environment=environment, hooks=[*SHORT, "tests.chaos.hooks:thaw_amid_planning"]
    )
    assert code in (0, 1), other.said
    has_ended = state_of(run.pid) == "Z"
    run.signal(signal.SIGCONT)
    assert run.wait() in (0, 1), run.said
    assert has_ended, "the other run did not plan several batches"
    mend(tally("S3: thawed amid another run's planning"), home, f"plans of two runs: {run.said} {other.said}")


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


@pytest.mark.long
@pytest.mark.one_machine
def test_a_home_at_each_provider_is_worked_on_run_by_run_and_after_one_that_broke_off(
    homes: Homes, tally, bucket_url: str, request: pytest.FixtureRequest
):
    """On S3 with Spark once there is something, else without."""
    launcher: Launcher = request.getfixturevalue("launcher")
    told, home, landed = tally("a run on a bucket breaks off"), f"{bucket_url}/lake/home", homes.copy(homes.running)
    environment = {name: value for name, value in os.environ.items() if name.startswith(("AWS_", "AZUR", "GOOGLE_"))}
    files = sorted((landed / "landing" / "clicks").iterdir())
    for some, then in ((files[:2], ()), (files[2:], (END, ("check",)))):
        for file in some:
            (to_place(home) / "landing" / "clicks" / file.name).write_bytes(file.read_bytes())
        code, run = launcher.run(home, *WORK, environment=environment | BROKEN_OFF, hooks=SHORT)
        assert code, run.said
        time.sleep(LEASE_IS_OVER)
        if then and bucket_url.startswith("s3a"):
            launcher = request.getfixturevalue("with_spark")
        code, run = launcher.run(home, *WORK, *then, environment=environment, hooks=SHORT)
        assert code == 0, run.said
    assert "is_whole: yes" in run.said
    told.count(expected(landed), found(home), bucket_url)
