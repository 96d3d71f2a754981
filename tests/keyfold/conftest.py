"""What tests of several rooms share: a real Kafka broker and a real HDFS, started when the first one asks for it."""

from collections.abc import Iterator

import pytest

from tests.hdfs_cluster import Hdfs, running_hdfs
from tests.hdfs_cluster import why_not as why_no_hdfs
from tests.kafka_broker import Broker, running_broker, why_not


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    if reason := why_not():
        pytest.skip(reason)
    with running_broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    if reason := why_no_hdfs():
        pytest.skip(reason)
    with running_hdfs(tmp_path_factory.mktemp("hdfs")) as running:
        yield running
