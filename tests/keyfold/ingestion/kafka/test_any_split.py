"""However a topic is cut into runs, batches and shares, and wherever runs break off: plain Python says what must be there.

Without a broker: a list a partition stands in for it, with holes where markers and compacted messages would be.
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from keyfold.ingestion import batch, ingest, ingest_run, ingest_totals, planning, split_reader, split_writer
from keyfold.ingestion.kafka.messages import Messages
from keyfold.ingestion.kafka.offsets import MESSAGE_BYTES, OffsetRange, TopicState
from keyfold.ingestion.kafka.settings import KafkaSettings
from keyfold.ingestion.kafka.topic import KafkaTopic
from keyfold.lakehouse import Lakehouse
from tests.examples import examples
from tests.keyfold.ingestion.test_batch import CRASHES, changed, ingest_after_crashes, kept, no_spark, stored
from tests.keyfold.ingestion.test_run import EVENTS, check_counts, event

MESSAGE = st.one_of(
    st.tuples(
        st.sampled_from(["u", "v"]),
        st.sampled_from([1, 2]),
        st.sampled_from([0, 1, 20, 25, 30, 49, -24]),
        st.sampled_from(["a", "a", "b"]),
    ),
    st.just("rubbish"),
    st.just("hole"),
)
"""An event's user, number, hours and note; what is no event; an offset without a message."""


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


@examples(25)
@given(
    st.lists(st.lists(st.lists(MESSAGE, max_size=6), min_size=2, max_size=2), min_size=1, max_size=4),
    st.integers(1, 4),
    st.integers(1, 8),
    st.sampled_from([1, 500, 1 << 20]),
    st.lists(st.tuples(st.sampled_from(CRASHES), st.integers(1, 3)), max_size=3),
)
def test_any_cut_and_any_crash_leaves_the_events_that_stand(
    runs: list[list[list[Any]]],
    parallelism: int,
    messages_a_batch: int,
    rows_a_file: int,
    crashes: list[tuple[str, int]],
):
    topic, left = Topic(2), list(crashes)
    source = KafkaTopic("t", settings=KafkaSettings("127.0.0.1:1"))
    size = messages_a_batch * MESSAGE_BYTES
    with (
        TemporaryDirectory() as folder,
        changed(batch, _SPLIT_BYTES=1),
        changed(split_writer, ROWS_A_FILE=rows_a_file),
        changed(split_reader, TopicReader=topic.reader),
        changed(planning, topic_state=topic.state),
        changed(ingest_run, topic_id=topic.id),
    ):
        lakehouse, spark = Lakehouse(Path(folder) / "home"), no_spark(parallelism)
        for news in runs:
            for at, rows in enumerate(news):
                # A producer sends what belongs together to one partition: so it is told which of two copies is earlier.
                topic.partitions[at] += [(f"{row[0]}{at}", *row[1:]) if isinstance(row, tuple) else row for row in rows]
            ingest_after_crashes(left, lakehouse, EVENTS, source, max_bytes_per_batch=size, runners=spark)
        check_counts(lakehouse, ingest(lakehouse, EVENTS, source, runners=spark))
        totals = ingest_totals(lakehouse, EVENTS)
        events = [[row if isinstance(row, tuple) else None for row in rows] for rows in topic.partitions]
        standing, conflicts = kept(events)
        assert stored(lakehouse) == standing
        assert totals.rows_read == sum(row != "hole" for rows in topic.partitions for row in rows)
        assert totals.quarantined - sum(row == "rubbish" for rows in topic.partitions for row in rows) in conflicts
