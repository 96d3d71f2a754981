"""What tests of several rooms share: a real Kafka broker, started when the first one asks for it."""

from collections.abc import Iterator

import pytest

from tests.kafka_broker import Broker, broker_or_skip


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with broker_or_skip(tmp_path_factory.mktemp("kafka")) as running:
        yield running
