"""What every test may share: one Spark session, a lakehouse of its own, the real data."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.lakehouse import Lakehouse
from spark_jobs.session import SparkSettings, build_session


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Modules with most long tests first: two workers that take whole modules in turn then end at about one time."""
    long = Counter(item.nodeid.partition("::")[0] for item in items if item.get_closest_marker("long"))
    items.sort(key=lambda item: -long[item.nodeid.partition("::")[0]])


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = build_session(SparkSettings(master="local[2]", conf={"spark.sql.shuffle.partitions": "2"}))
    yield session
    session.stop()


@pytest.fixture
def lakehouse(tmp_path: Path) -> Lakehouse:
    return Lakehouse(tmp_path / "home")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    return Path(__file__).resolve().parents[1].parent / "shared" / "data"
