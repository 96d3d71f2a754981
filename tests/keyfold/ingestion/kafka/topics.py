"""Messages of a topic, and what ingest made of them."""

import json
from collections.abc import Sequence
from typing import Any

from deltalake import DeltaTable

from keyfold.lakehouse import Lakehouse
from tests.kafka_broker import Broker
from tests.landings import local_runners, rows

LOCAL: Any = local_runners(2)


def produce(broker: Broker, topic: str, values: Sequence[Any], partition: int = 0, **more: Any) -> None:
    producer = broker.producer()
    for value in values:
        producer.produce(topic, json.dumps(value) if isinstance(value, dict) else value, partition=partition, **more)
    assert producer.flush(30) == 0


def numbers(lakehouse: Lakehouse) -> list[int]:
    return sorted(row[1] for row in rows(lakehouse.events("clicks")))


def quarantine(lakehouse: Lakehouse) -> list[dict[str, Any]]:
    table = DeltaTable(str(lakehouse.quarantine("clicks"))).to_pyarrow_table().to_pylist()
    return sorted(table, key=lambda row: (row["file"], row["line"]))
