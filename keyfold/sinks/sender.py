"""Send a table's batches to a topic, each in a Kafka transaction that also commits the number of the next batch."""

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from keyfold.errors import KeyfoldError
from keyfold.ingestion.kafka.kafka_settings import KafkaSettings
from keyfold.keyed.generation.generations import Generation
from keyfold.lakehouse.fail_points import fail_point
from keyfold.lazy_names import from_extra

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
else:
    Consumer, KafkaException, Producer, TopicPartition = from_extra(
        "kafka", "confluent_kafka", "Consumer", "KafkaException", "Producer", "TopicPartition"
    )

TIMEOUT = 60.0
"""Seconds to wait for a broker to answer a transaction."""

NOTE = "published.json"
"""The file of a generation with the batch that was sent last, for the case that Kafka's offset has expired."""

_MAX_TRANSACTION_MS = 900_000
"""The maximum that brokers allow by default, since a batch of a full refresh may be large."""

_Answer = TypeVar("_Answer")


class Sent(NamedTuple):
    """The last batch that a topic has.

    Attributes:
        batch: its number; -1 before the first.
        digest: the digest of its commit record (`Journal.digest`).
    """

    batch: int = -1
    digest: str = ""


class Sender:
    """A transactional producer that fences earlier producers of the same table and topic; a context manager."""

    def __init__(self, settings: KafkaSettings, generation: Generation, table: str, topic: str) -> None:
        name = f"keyfold-{generation.identity}-{table}-{topic}"
        # The offset of partition 0 stands for the whole topic: it is the number of the next batch.
        self._topic, self._place = topic, TopicPartition(topic, 0)
        self._identity, self._key = generation.identity, f"{table} to {topic}"
        self._note = generation.folder / NOTE
        self._group = Consumer(
            settings.client(**{"group.id": name, "enable.auto.commit": False, "isolation.level": "read_committed"})
        )
        self._producer = Producer(
            settings.client(
                **{
                    "transactional.id": name,
                    "transaction.timeout.ms": _MAX_TRANSACTION_MS,
                    "linger.ms": 20,
                }
            )
        )

    def __enter__(self) -> Self:
        # Fences an earlier producer with this name, and aborts its open transaction.
        _with_retries(lambda: self._producer.init_transactions(TIMEOUT))
        return self

    def __exit__(self, *error: object) -> None:
        self._group.close()
        self._producer.purge()

    def last_sent(self) -> Sent:
        """The last batch that was sent, from Kafka's offset, else from the note."""
        committed = _with_retries(self._committed)
        if committed.offset >= 0:
            return Sent(committed.offset - 1, committed.metadata or "")
        # Neither an offset nor a note: the topic is new for this table.
        noted = self._notes().get(self._key)
        return Sent(*noted) if noted else Sent()

    def send(self, batch: int, digest: str, rows: Iterator[tuple[bytes | None, bytes]]) -> int:
        """Send all rows of a batch, or none.

        Args:
            batch: the batch's number.
            digest: the digest of its commit record.
            rows: keys and values.

        Returns:
            The number of rows.

        Raises:
            KafkaException: the batch was not committed to Kafka.
        """
        self._producer.begin_transaction()
        try:
            count = self._produce(batch, rows)
            sent = TopicPartition(self._topic, 0, batch + 1, digest)
            group = self._group.consumer_group_metadata()
            _with_retries(lambda: self._producer.send_offsets_to_transaction([sent], group, TIMEOUT))
            fail_point("sink: sent")
            _with_retries(lambda: self._producer.commit_transaction(TIMEOUT))
        except (KafkaException, KeyfoldError) as error:
            # An open transaction would block all readers of the topic until the next run or the broker ends it.
            if isinstance(error, KeyfoldError) or error.args[0].txn_requires_abort():
                self._producer.abort_transaction(TIMEOUT)
            raise
        fail_point("sink: committed")
        self._note.write_json(self._notes() | {self._key: Sent(batch, digest)})
        return count

    def _notes(self) -> dict[str, Any]:
        return self._note.read_json() if self._note.exists() else {}

    def _committed(self) -> TopicPartition:
        [committed] = self._group.committed([self._place], timeout=TIMEOUT)
        if committed.error is not None:
            raise KafkaException(committed.error)
        return committed

    def _produce(self, batch: int, rows: Iterator[tuple[bytes | None, bytes]]) -> int:
        count = 0
        for key, value in rows:
            headers: list[tuple[str, Any]] = [
                ("keyfold-generation", self._identity),
                ("keyfold-batch", str(batch)),
                ("keyfold-row", str(count)),
            ]
            while True:
                try:
                    self._producer.produce(self._topic, value, key, headers=headers)
                    break
                except BufferError:  # the client's queue is full: let it send
                    self._producer.poll(0.1)
            count += 1
        return count


def _with_retries(ask: Callable[[], _Answer]) -> _Answer:
    """Retry while a broker is not ready: it moves a partition, or is still ending the previous transaction."""
    until = time.monotonic() + TIMEOUT
    while True:
        try:
            return ask()
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > until:
                raise
        time.sleep(0.1)
