"""A topic without a broker: a list a partition stands in for it, with holes where markers and compacted messages would be."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from keyfold.ingestion import ingest_plans, ingest_run, split_reader
from keyfold.ingestion.kafka.kafka_settings import KafkaSettings
from keyfold.ingestion.kafka.messages import Messages
from keyfold.ingestion.kafka.offsets import OffsetRange, TopicState
from keyfold.ingestion.kafka.topic import KafkaTopic
from tests.landings import event


class Topic:
    """Partitions as lists."""

    def __init__(self, partitions: int) -> None:
        self.partitions: list[list[Any]] = [[] for _ in range(partitions)]
        self.first = [0] * partitions

    def state(self, _: KafkaTopic) -> TopicState:
        end = {at: len(rows) for at, rows in enumerate(self.partitions)}
        first = dict(enumerate(self.first))
        return TopicState("t", "id", first, end, first)

    def id(self, _: KafkaTopic) -> str:
        return "id"

    def reader(self, *_: Any, **__: Any) -> Any:
        return _Reader(self)

    @contextmanager
    def read(self) -> Iterator[KafkaTopic]:
        """Have ingest read it in place of a broker's."""
        with (
            patch.multiple(split_reader, TopicReader=self.reader),
            patch.multiple(ingest_plans, topic_state=self.state),
            patch.multiple(ingest_run, topic_id=self.id),
        ):
            yield KafkaTopic("t", settings=KafkaSettings("127.0.0.1:1"))


class _Reader:
    def __init__(self, topic: Topic) -> None:
        self._topic = topic

    def __enter__(self) -> "_Reader":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def read(self, wanted: OffsetRange) -> Any:
        rows = self._topic.partitions[wanted.partition]
        there = [at for at in range(wanted.start, wanted.end) if rows[at] != "hole"]
        # In chunks of two, so that a range is several.
        for start in range(0, len(there), 2):
            part = there[start : start + 2]
            values = [b"rubbish" if rows[at] == "rubbish" else json.dumps(event(*rows[at])).encode() for at in part]
            yield Messages(wanted.partition, np.array(part, np.int64), values, None, pa.table({}))
