"""Read ranges of offsets in a worker: only committed messages, each once, in the order of their offsets.

The consumer is assigned partitions and does not join a group. It commits no offsets to Kafka, since the journal records how
far a topic has been read.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from keyfold.ingestion.kafka.decoded import Decoded
from keyfold.ingestion.kafka.kafka_settings import KafkaSettings
from keyfold.ingestion.kafka.message_columns import KEY, TIMESTAMP, TOMBSTONE, key_texts, raw_columns
from keyfold.ingestion.kafka.offsets import OffsetRange, lost_error
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
"""Limits of what is parsed at once, as for files. `CHUNK_BYTES` is also one of decoded values, which may be longer than framed ones."""

_FIRST = 500
_LOOK = 0.05
"""Seconds after which a call for messages returns those that have arrived."""

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


class TopicReader:
    """A consumer of one topic; a context manager.

    Args:
        settings: settings of the connection.
        topic: name of the topic.
        columns: raw columns needed besides the value, from `message_columns`.
        longest: most bytes of a message that is decoded.
        record_gaps: whether ranges of expired messages are returned; otherwise they are an error.
    """

    def __init__(
        self, settings: KafkaSettings, topic: str, columns: Sequence[str], *, longest: int, record_gaps: bool
    ) -> None:
        self._settings, self._topic, self._columns, self._record_gaps = settings, topic, columns, record_gaps
        self._trouble = ""
        self._decoder = None
        if settings.registry:
            # Its libraries take as long to import as all others of ingest, and few topics need them.
            from keyfold.ingestion.kafka.message_decoder import MessageDecoder  # noqa: PLC0415

            self._decoder = MessageDecoder(settings, longest)
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
                yield from self._chunks(wanted.partition, taken)
                taken, taken_bytes = [], 0
            if lost:
                yield lost
                # After an offset error the consumer has stopped: continue behind the gap.
                self._assign(wanted.partition, position)
        yield from self._chunks(wanted.partition, taken)

    def _judge(self, message: Message, wanted: OffsetRange, position: int) -> tuple[int, OffsetRange | None]:
        """Return the next position after an error, and the expired range if there is one."""
        error = message.error()
        assert error is not None  # noqa: S101 - the caller has checked it
        if error.code() == KafkaError._PARTITION_EOF:
            # Transaction markers and aborted messages are not delivered: the end of the partition shows that they are past.
            end = message.offset()
            return (min(max(position, end), wanted.end) if end is not None else position), None
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

    def _chunks(self, partition: int, taken: Sequence[Message]) -> Iterator[Messages]:
        """Decode messages, and yield them in chunks of bounded size."""
        # `map` over C methods again.
        values = list(map(Message.value, taken))
        keys = list(map(Message.key, taken)) if KEY in self._columns else []
        if self._decoder is None:
            if taken:
                yield self._messages(partition, taken, values, keys, {})
            return
        parts = [values, keys] if keys else [values]
        decoded = self._decoder.decode([part for message in zip(*parts, strict=True) for part in message])
        begin, size = 0, 0
        rows: list[tuple[Decoded, ...]] = []
        for message in zip(*[decoded] * len(parts), strict=True):
            rows.append(message)
            size += sum(len(part.text or b"") for part in message)
            if size >= CHUNK_BYTES or begin + len(rows) == len(taken):
                end = begin + len(rows)
                faults = {at: row[0].fault for at, row in enumerate(rows) if row[0].fault}
                texts = key_texts(keys[begin:end], [row[1] for row in rows], faults) if keys else []
                yield self._messages(partition, taken[begin:end], [row[0].text for row in rows], texts, faults)
                begin, size, rows = end, 0, []

    def _messages(
        self,
        partition: int,
        taken: Sequence[Message],
        values: Sequence[bytes | None],
        keys: Sequence[bytes | str | None],
        faults: dict[int, str],
    ) -> Messages:
        # The times cost a call per message: read them only if they are used. A topic's kind of time may change, so the broker's
        # time counts only if all messages of a chunk have it.
        is_append = taken[0].timestamp()[0] == TIMESTAMP_LOG_APPEND_TIME
        times = [message.timestamp() for message in taken] if is_append or TIMESTAMP in self._columns else []
        is_append = is_append and all(kind == TIMESTAMP_LOG_APPEND_TIME for kind, _ in times)
        columns = raw_columns(self._columns, taken, keys, [at for _, at in times], faults)
        if TOMBSTONE in self._columns:
            # Then one without a value is an event. Not of `values`: what cannot be decoded is None there too.
            values = [b"{}" if message.value() is None else value for message, value in zip(taken, values, strict=True)]
        return Messages(
            partition,
            np.fromiter(map(Message.offset, taken), np.int64, len(taken)),
            values,
            np.array([at for _, at in times], np.int64) * 1000 if is_append else None,
            columns,
            faults,
        )
