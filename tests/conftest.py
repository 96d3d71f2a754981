"""What every test may share: one Spark session, a lakehouse of its own, the real data."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.lakehouse import Lakehouse
from spark_jobs.session import SparkSettings, build_session
from tests.chaos.table import lines_of
from tests.chaos.tally import Tally
from tests.java_for_tests import use_fast_starts
from tests.object_store import ObjectStore, running_store
from tests.standalone_cluster import standalone_cluster

use_fast_starts()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--cluster`: the tests that take the shared session, on a standalone cluster."""
    parser.addoption(
        "--cluster",
        action="store_true",
        help="run the tests that use the shared Spark session, on a master and two workers of their own on loopback",
    )


def pytest_itemcollected(item: pytest.Item) -> None:
    """What counts faults is marked so, wherever it is."""
    if "tally" in getattr(item, "fixturenames", ()):
        item.add_marker("faults")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Modules with most long tests first: two workers that take whole modules in turn then end at about one time."""
    if config.getoption("--cluster"):
        others = [item for item in items if not _is_for_clusters(item)]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if _is_for_clusters(item)]
    long = Counter(item.nodeid.partition("::")[0] for item in items if item.get_closest_marker("long"))
    items.sort(key=lambda item: -long[item.nodeid.partition("::")[0]])


def _is_for_clusters(item: pytest.Item) -> bool:
    fixtures = getattr(item, "_fixtureinfo", None)
    sessions = list(fixtures.name2fixturedefs.get("spark", ())) if fixtures else []
    # Some modules have another of that name, which does without Spark, unless it is made of this one.
    shared = any(one.baseid == "tests" for one in sessions) and (
        sessions[-1].baseid == "tests" or "spark" in sessions[-1].argnames
    )
    return shared and item.get_closest_marker("one_machine") is None


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
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    two = {"spark.sql.shuffle.partitions": "2"}
    with ExitStack() as running:
        settings = SparkSettings(master="local[2]", conf=two)
        if request.config.getoption("--cluster"):
            cluster = running.enter_context(standalone_cluster(tmp_path_factory.mktemp("cluster")))
            # Workers import what tests hand to Spark as they import a user's own package.
            settings = SparkSettings(master=cluster.master, conf=cluster.conf | two, ship=("tests",))
        session = build_session(settings)
        running.callback(session.stop)
        yield session


@pytest.fixture
def lakehouse(tmp_path: Path) -> Lakehouse:
    return Lakehouse(tmp_path / "home")


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
def shared_data() -> Path:
    return Path(__file__).resolve().parents[1].parent / "shared" / "data"
