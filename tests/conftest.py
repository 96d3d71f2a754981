"""What every test may share: one Spark session, a lakehouse of its own, the real data."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.lakehouse import Lakehouse
from spark_jobs.session import SparkSettings, build_session


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
