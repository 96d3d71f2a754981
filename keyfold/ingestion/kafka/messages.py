"""Read ranges of offsets in a worker: only committed messages, each once, in the order of their offsets.

The consumer is assigned partitions and does not join a group. It commits no offsets to Kafka, since the journal records how
far a topic has been read.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keyfold.ingestion.kafka.offsets import OffsetRange, lost_error
from keyfold.ingestion.kafka.settings import KafkaSettings
from keyfold.lazy_names import from_extra

if TYPE_CHECKING:
    from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, KafkaError, KafkaException, Message, TopicPartition
else:
    TIMESTAMP_LOG_APPEND_TIME, Consumer, KafkaError, KafkaException, Message, TopicPartition = from_extra(
        "kafka",
        "confluent_kafka",
        "TIMESTAMP_LOG_APPEND_TIME",
        "Consumer",
        "KafkaError",
        "KafkaException",
        "Message",
        "TopicPartition",
    )

SILENCE = 60.0
"""Seconds without a message before the end of a planned range, after which the run fails."""

CHUNK_MESSAGES = 50_000
CHUNK_BYTES = 16 << 20
"""Limits of what is parsed at once, as for files."""

_FIRST = 500
_LOOK = 0.05
"""Seconds after which a call for messages returns those that have arrived."""

_MILLIS = pa.timestamp("ms", tz="UTC")
_HEADER = "kafka_header."
_TOMBSTONE = "kafka_tombstone"

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Messages:
    """Messages of a partition.

    Attributes:
        partition: the partition.
        offsets: their offsets.
        values: their values; None for a tombstone, unless a column of the stream tells that it is one.
        appended: when the broker appended each, in microseconds since 1970; None if the topic keeps the producer's time.
        columns: the raw columns that the stream takes from outside of the value.
        faults: faults in these columns, by position.
    """

    partition: int
    offsets: Numbers
    values: Sequence[bytes | None]
    appended: Numbers | None
    columns: pa.Table
    faults: Mapping[int, str] = field(default_factory=dict)


def message_columns(raw_columns: Sequence[str]) -> tuple[str, ...]:
    """Return the raw columns of a stream that come from outside of a message's value.

    `kafka_topic`, `kafka_partition`, `kafka_offset`, `kafka_timestamp` (set by producer or broker), `kafka_key` and
    `kafka_header.NAME` (UTF-8 text; the last header of that name), `kafka_headers` (all, as a JSON list of pairs),
    `kafka_tombstone` (whether the message has no value; then it is an event all the same).
    """
    known = {
        *("kafka_topic", "kafka_partition", "kafka_offset", "kafka_timestamp", "kafka_key", "kafka_headers"),
        _TOMBSTONE,
    }
    return tuple(name for name in dict.fromkeys(raw_columns) if name in known or name.startswith(_HEADER))


class TopicReader:
    """A consumer of one topic; a context manager.

    Args:
        settings: settings of the connection.
        topic: name of the topic.
        columns: raw columns needed besides the value, from `message_columns`.
        record_gaps: whether ranges of expired messages are returned; otherwise they are an error.
    """

    def __init__(self, settings: KafkaSettings, topic: str, columns: Sequence[str], *, record_gaps: bool) -> None:
        self._settings, self._topic, self._columns, self._record_gaps = settings, topic, columns, record_gaps
        self._trouble = ""
        self._registry = None
        if settings.registry:
            # Its libraries take as long to import as all others of ingest, and few topics need them.
            from keyfold.ingestion.kafka.registry import Registry  # noqa: PLC0415

            self._registry = Registry(settings.registry)
        try:
            self._consumer = Consumer(
                # The client requires a group, which is not used.
                {"group.id": "keyfold", "fetch.wait.max.ms": 100, "queued.min.messages": 200_000}
                | settings.client(
                    **{
                        "enable.auto.commit": False,
                        "enable.partition.eof": True,
                        "isolation.level": "read_committed",
                        # Fail instead of silently continuing at another offset.
                        "auto.offset.reset": "error",
                    },
                    error_cb=self._remember,
                )
            )
        except KafkaException as error:
            raise OSError(
                f"Kafka's client refuses its settings: {settings.without_secrets(error.args[0].str())}"
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    def read(self, wanted: OffsetRange) -> Iterator[Messages | OffsetRange]:
        """Read a range, and yield chunks of messages and ranges of expired ones, in order.

        Raises:
            OSError: the broker does not answer, or refuses access.
            KeyfoldError: messages have expired, and gaps are not recorded.
        """
        if wanted.is_lost:
            yield wanted
            return
        # The first call asks for few messages, to learn their size; later calls ask for about a chunk.
        position, ask = wanted.start, _FIRST
        taken: list[Message] = []
        taken_bytes, heard = 0, time.monotonic()
        self._assign(wanted.partition, position)
        while position < wanted.end:
            messages = self._consumer.consume(min(ask, wanted.end - position), timeout=_LOOK)
            # `map` over C methods, here and below: a Python call per message would cost as much as parsing it.
            is_clean = not any(map(Message.error, messages))
            faults = [] if is_clean else [message for message in messages if message.error() is not None]
            good = messages if is_clean else [message for message in messages if message.error() is None]
            if good:
                last = good[-1].offset() or 0
                # Offsets have gaps, so the last messages may be beyond the end.
                if last >= wanted.end:
                    good = [message for message in good if (message.offset() or 0) < wanted.end]
                position = min(last + 1, wanted.end)
                taken += good
                taken_bytes += sum(map(len, good))
                ask = max(1, min(CHUNK_MESSAGES, CHUNK_BYTES * len(taken) // (taken_bytes + 1)))
            lost = None
            for message in faults:
                position, lost = self._judge(message, wanted, position)
            if good or faults:
                heard = time.monotonic()
            elif time.monotonic() - heard > SILENCE:
                raise OSError(self._silent(wanted, position))
            if len(taken) >= CHUNK_MESSAGES or taken_bytes >= CHUNK_BYTES or lost or position >= wanted.end:
                if taken:
                    yield self._messages(wanted.partition, taken)
                taken, taken_bytes = [], 0
            if lost:
                yield lost
                # After an offset error the consumer has stopped: continue behind the gap.
                self._assign(wanted.partition, position)
        if taken:
            yield self._messages(wanted.partition, taken)

    def _judge(self, message: Message, wanted: OffsetRange, position: int) -> tuple[int, OffsetRange | None]:
        """Return the next position after an error, and the expired range if there is one."""
        error = message.error()
        assert error is not None  # noqa: S101 - the caller has checked it
        if error.code() == KafkaError._PARTITION_EOF:
            # Transaction markers and aborted messages are not delivered: the end of the partition shows that they are past.
            reached = message.offset()
            return (min(max(position, reached), wanted.end) if reached is not None else position), None
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            first, end = self._bounds(wanted.partition)
            if position >= first:
                raise OSError(
                    f"topic {self._topic}: partition {wanted.partition} was planned to be read to offset {wanted.end}, but now "
                    f"ends at {end}: it was truncated"
                )
            lost = OffsetRange(partition=wanted.partition, start=position, end=min(first, wanted.end), is_lost=True)
            if not self._record_gaps:
                raise lost_error(self._topic, lost)
            return lost.end, lost
        if error.retriable() or error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
            self._remember(error)
            return position, None
        raise OSError(f"topic {self._topic}: {self._settings.without_secrets(error.str())}")

    def _assign(self, partition: int, offset: int) -> None:
        self._consumer.assign([TopicPartition(self._topic, partition, offset)])

    def _bounds(self, partition: int) -> tuple[int, int]:
        try:
            return self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), timeout=SILENCE)
        except KafkaException as error:
            raise OSError(f"topic {self._topic}: {self._settings.without_secrets(error.args[0].str())}") from None

    def _remember(self, error: KafkaError) -> None:
        self._trouble = self._settings.without_secrets(error.str())

    def _silent(self, wanted: OffsetRange, position: int) -> str:
        why = f" ({self._trouble})" if self._trouble else ""
        return (
            f"topic {self._topic}: Kafka at {self._settings.bootstrap} sent nothing for {SILENCE:g} s{why}, at offset "
            f"{position} of partition {wanted.partition}, which was planned to be read to {wanted.end}"
        )

    def _messages(self, partition: int, taken: Sequence[Message]) -> Messages:
        offsets = np.fromiter(map(Message.offset, taken), np.int64, len(taken))
        # The times cost a call per message: read them only if they are used. A topic's kind of time may change, so the broker's
        # time counts only if all messages of a chunk have it.
        is_append = taken[0].timestamp()[0] == TIMESTAMP_LOG_APPEND_TIME
        times = [message.timestamp() for message in taken] if is_append or "kafka_timestamp" in self._columns else []
        is_append = is_append and all(kind == TIMESTAMP_LOG_APPEND_TIME for kind, _ in times)
        values, faults = list(map(Message.value, taken)), dict[int, str]()
        if self._registry is not None:
            values, faults = self._registry.decode(values)
        columns: dict[str, Any] = {}
        for name in self._columns:
            if name == _TOMBSTONE:
                # Not of `values`: there, what the registry could not decode is None too.
                are_gone = [message.value() is None for message in taken]
                columns[name] = pa.array(are_gone)
                values = [b"{}" if is_gone else value for is_gone, value in zip(are_gone, values, strict=True)]
            elif name == "kafka_topic":
                columns[name] = pa.repeat(pa.scalar(self._topic), len(taken))
            elif name == "kafka_partition":
                columns[name] = pa.repeat(pa.scalar(partition, pa.int64()), len(taken))
            elif name == "kafka_offset":
                columns[name] = pa.array(offsets)
            elif name == "kafka_timestamp":
                columns[name] = pa.array([None if at < 0 else at for _, at in times], _MILLIS)
            elif name == "kafka_key":
                columns[name] = _texts(name, self._keys(taken, faults), faults)
            elif name == "kafka_headers":
                columns[name] = _texts(name, [_all_headers(message) for message in taken], faults)
            else:
                wanted = name.removeprefix(_HEADER)
                columns[name] = _texts(name, [_header(message, wanted) for message in taken], faults)
        return Messages(
            partition,
            offsets,
            values,
            np.array([at for _, at in times], np.int64) * 1000 if is_append else None,
            pa.table(columns),
            faults,
        )

    def _keys(self, taken: Sequence[Message], faults: dict[int, str]) -> Sequence[bytes | str | None]:
        keys = [message.key() for message in taken]
        if self._registry is None:
            return keys
        decoded, of_keys = self._registry.decode(keys)
        for at, fault in of_keys.items():
            faults.setdefault(at, f"kafka_key: {fault}")
            decoded[at] = None
        # A key that is a text is that text, and not JSON's form of it.
        return [
            json.loads(new) if new and new != old and new[:1] == b'"' else new
            for old, new in zip(keys, decoded, strict=True)
        ]


def _header(message: Message, name: str) -> bytes | str | None:
    return next((value for key, value in reversed(message.headers() or []) if key == name), None)


def _all_headers(message: Message) -> bytes | None:
    headers = message.headers()
    if not headers:
        return None
    pairs = [
        [name, value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value]
        for name, value in headers
    ]
    return json.dumps(pairs, ensure_ascii=False).encode()


def _texts(name: str, values: Sequence[bytes | str | None], faults: dict[int, str]) -> pa.Array:
    texts: list[str | None] = []
    for position, value in enumerate(values):
        try:
            texts.append(value.decode() if isinstance(value, bytes) else value)
        except UnicodeDecodeError as error:
            texts.append(None)
            faults.setdefault(position, f"{name} is not UTF-8: {error.reason} at byte {error.start}")
    return pa.array(texts, pa.string())
