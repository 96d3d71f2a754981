"""What a topic has of a table that is published to it."""

import json
import time
from collections import Counter
from typing import Any

import polars as pl
from confluent_kafka import Consumer, IsolationLevel, KafkaError, TopicPartition

from keyfold.lakehouse import Lakehouse
from tests.kafka_broker import Broker


def to(broker: Broker, topic: str, table: str = "windows") -> dict[str, str]:
    return {"KEYFOLD_KAFKA_BOOTSTRAP": broker.bootstrap, "KEYFOLD_KAFKA_SINKS": f"{table}={topic}"}


def messages(broker: Broker, topic: str) -> list[Any]:
    """All messages of a topic of one partition, once the last transaction's mark is there (brokers write it a moment later)."""
    until = time.monotonic() + 30
    while (
        len({broker.end(topic, level) for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)})
        > 1
    ):
        assert time.monotonic() < until, "a transaction stays open"
        time.sleep(0.05)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": f"reader-{time.monotonic_ns()}",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while (message := consumer.poll(30)) is not None:
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF
            break
        found.append(message)
    consumer.close()
    return found


def rows_of(found: list[Any]) -> Counter[str]:
    return Counter(json.dumps(json.loads(message.value()), sort_keys=True) for message in found)


def table_rows(lakehouse: Lakehouse, table: str = "windows") -> Counter[str]:
    frame = pl.read_delta(str(lakehouse.table(table)))
    times = [name for name, dtype in frame.schema.items() if isinstance(dtype, pl.Datetime)]
    texts = frame.with_columns(pl.col(times).dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ"))
    return Counter(json.dumps(row, sort_keys=True) for row in texts.to_dicts())
