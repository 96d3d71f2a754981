"""What every test may share: one Spark session, a lakehouse of its own, the real data."""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from keyfold.lakehouse import Lakehouse
from keyfold.runners import Runners
from keyfold.session import SparkSettings, build_session
from keyfold.storage.disk_path import DiskPath
from tests.chaos.tally import Tally, lines_of
from tests.emulators import Emulator, running_azure_store, running_google_store
from tests.inherited_signals import hear_signals
from tests.java_for_tests import long_lived_java, use_fast_starts
from tests.lake import Lake
from tests.lake import minutes as after_start
from tests.memory_for_files import use_memory
from tests.object_store import ObjectStore, running_store
from tests.power_cuts import cut_power
from tests.sharing import ByServer, say_servers, server_of
from tests.standalone_cluster import standalone_cluster

__all__ = ["cut_power"]

hear_signals()
use_fast_starts()
use_memory()
# `make test` sets it for servers. Continuous runs of tests must not report to this checkout's instance.
os.environ.pop("DAGSTER_HOME", None)
# Examples may take any time: machines are busy. Where the variable CI is set, this is hypothesis' default.
hypothesis.settings.register_profile("any time", hypothesis.settings.default, deadline=None)
hypothesis.settings.load_profile("any time")

_OF_JOBS = ("tests/spark_jobs/jobs/", "tests/keyfold/keyed/")
"""Whose tests are run with homes in a bucket where they do without Spark too."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--cluster`: the tests that take the shared session, on a standalone cluster; `--bucket`: with homes in a bucket."""
    parser.addoption(
        "--cluster",
        action="store_true",
        help="run the tests that use the shared Spark session, on a master and two workers of their own on loopback",
    )
    parser.addoption(
        "--bucket",
        action="store_true",
        help="run the tests of jobs, and those that use the shared Spark session, with their homes in a bucket on loopback",
    )


_LIMITS = {"chaos": 3600, "long": 900}
"""Seconds that a test of a mark may take, in place of `timeout` in pyproject.toml."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """What counts faults is marked so, wherever it is; and what needs long has more time until it fails."""
    if "tally" in getattr(item, "fixturenames", ()):
        item.add_marker("faults")
    if limits := [seconds for mark, seconds in _LIMITS.items() if item.get_closest_marker(mark)]:
        item.add_marker(pytest.mark.timeout(limits[0]))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Modules with most long tests first, then with most on Spark: workers that take whole modules end at about one time."""
    if config.getoption("--cluster"):
        _keep(config, items, lambda item: server_of(item) == "spark" and item.get_closest_marker("one_machine") is None)
    if config.getoption("--bucket"):
        _keep(config, items, _is_for_buckets)
        for item in items:
            for marker in item.iter_markers("on_disk"):
                item.add_marker(pytest.mark.skip(reason=f"of homes on a disk: {marker.args[0]}"))
    long = Counter(item.path for item in items if item.get_closest_marker("long"))
    on_spark = Counter(item.path for item in items if server_of(item) == "spark")
    items.sort(key=lambda item: (-long[item.path], -on_spark[item.path]))
    if hasattr(config, "workerinput"):
        say_servers(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByServer:
    return ByServer(config, log)


def _keep(config: pytest.Config, items: list[pytest.Item], is_kept: Callable[[Any], bool]) -> None:
    """Leave only these among the items to run."""
    config.hook.pytest_deselected(items=[item for item in items if not is_kept(item)])
    items[:] = [item for item in items if is_kept(item)]


def _is_for_buckets(item: Any) -> bool:
    """Whether it has a home, and looks at jobs, or at what else shares the session."""
    return "new_home" in item.fixturenames and (item.nodeid.startswith(_OF_JOBS) or server_of(item) == "spark")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What became of every kind of fault that was tried."""
    told = [
        value
        for reports in terminalreporter.stats.values()
        for report in reports
        # By the last report of a test: what a tally comes to is told when the test is over.
        for name, value in getattr(report, "user_properties", ())
        if name == "fault" and report.when == "teardown"
    ]
    if lines := lines_of(told):
        terminalreporter.section("faults")
        for line in lines:
            terminalreporter.line(line)


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runners]:
    """Runners that do all work on Spark."""
    # The other two are of Spark Connect, if a test has it served too.
    two = {
        "spark.sql.shuffle.partitions": "2",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
    }
    with ExitStack() as running:
        settings = SparkSettings(master="local[2]", conf=two)
        if request.config.getoption("--cluster"):
            cluster = running.enter_context(standalone_cluster(tmp_path_factory.mktemp("cluster")))
            # Workers import what tests hand to Spark as they import a user's own package.
            settings = settings.model_copy(
                update={"master": cluster.master, "conf": cluster.conf | two, "ship": ("tests",)}
            )
        with long_lived_java():
            session = build_session(settings)
        running.callback(session.stop)
        yield Runners("spark", session)


@pytest.fixture(scope="session")
def new_home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Lakehouse]:
    """Make a lakehouse whose home is nobody else's: on a disk, or with `--bucket` in a bucket. Creates nothing."""
    if not request.config.getoption("--bucket"):
        return lambda name: Lakehouse(tmp_path_factory.mktemp(name) / "home")
    bucket, numbers = request.getfixturevalue("bucket_of_homes"), count()
    return lambda name: Lakehouse(f"{bucket}/{name}-{next(numbers)}/home")


@pytest.fixture
def tmp_path(tmp_path: DiskPath) -> DiskPath:
    """The test's folder, as the functions behind the public ones take it."""
    return DiskPath(tmp_path)


@pytest.fixture
def lakehouse(new_home: Callable[[str], Lakehouse], request: pytest.FixtureRequest, tmp_path: DiskPath) -> Lakehouse:
    return new_home("lake") if request.config.getoption("--bucket") else Lakehouse(tmp_path / "home")


@pytest.fixture
def lake(lakehouse: Lakehouse) -> Lake:
    """The test's lakehouse, with runs without Spark."""
    return Lake(lakehouse)


@pytest.fixture
def without_spark() -> Runners:
    """Runners of the test's own, in this process."""
    return Runners("local")


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    """A landing folder, which is empty."""
    (tmp_path / "landing").mkdir()
    return tmp_path / "landing"


@pytest.fixture
def land(lake: Lake) -> Callable[..., None]:
    """Put toy clicks into the event table, one file a call."""
    return lake.click


@pytest.fixture
def rows(lake: Lake) -> Callable[..., list[Any]]:
    """The rows of a table, in one order."""
    return lake.rows


@pytest.fixture
def minutes() -> Callable[[float], Any]:
    """The time so many minutes after the first of the toy clicks."""
    return after_start


@pytest.fixture(scope="session")
def bucket_of_homes(object_store: ObjectStore) -> Iterator[str]:
    """The URL of the bucket that has all homes of a session of tests, which reach it from begin to end."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in object_store.environment().items():
            patch.setenv(name, value)
        yield f"s3a://{object_store.new_bucket()}"


@pytest.fixture(scope="session")
def object_store() -> Iterator[ObjectStore]:
    with running_store() as store:
        yield store


@pytest.fixture
def bucket(object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> str:
    """A bucket of the test's own, which this process and those that it starts reach while the test lasts."""
    for name, value in object_store.environment().items():
        monkeypatch.setenv(name, value)
    return object_store.new_bucket()


@pytest.fixture(scope="session")
def azure_store() -> Iterator[Emulator]:
    with running_azure_store() as store:
        yield store


@pytest.fixture(scope="session")
def google_store() -> Iterator[Emulator]:
    with running_google_store() as store:
        yield store


_STORES = {"s3a": "object_store", "az": "azure_store", "gs": "google_store"}


@pytest.fixture(params=["s3a", "az", pytest.param("gs", marks=pytest.mark.slow)])
def bucket_url(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a bucket of the test's own at each provider, which this process and those that it starts reach meanwhile."""
    store = request.getfixturevalue(_STORES[request.param])
    for name, value in store.environment().items():
        monkeypatch.setenv(name, value)
    return f"{request.param}://{store.new_bucket()}"


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


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder `tests/data`: real data, with its sources and licences."""
    return Path(__file__).resolve().parent / "data"
