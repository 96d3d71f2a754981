"""What tests of several rooms share: a real Kafka broker, started when the first one asks for it."""

from collections.abc import Iterator

import pytest

from tests.kafka_broker import Broker, running_broker, why_not


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    if reason := why_not():
        pytest.skip(reason)
    with running_broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running
