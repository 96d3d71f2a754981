"""Decode messages whose schemas are in a registry: those of Avro become JSON, and those of JSON Schema are JSON.

Each message names the schema that it was written with, so a topic may have messages of many versions: a field that the stream
does not know is shown as drift, as a column of a file is. A message is decoded in a child process, which it may end (`avro`).
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from keyfold.ingestion.child import ChildEndedError, WorkFailedError, in_child
from keyfold.ingestion.kafka.avro import AvroSchema, decode_avro
from keyfold.ingestion.kafka.decoded import Decoded, fault, too_long
from keyfold.ingestion.kafka.kafka_settings import KafkaSettings
from keyfold.ingestion.kafka.schema_registry import FRAME_BYTES, SchemaRegistry, schema_number

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema

MEMORY = 1 << 30
"""Bytes that a child may take for messages."""

SILENCE = 120.0
"""Seconds without an answer after which the child is ended, and the message is not decoded."""

_AT_ONCE = 1_000
"""Messages of which a child answers the results together."""

_MOST_REFERENCES = 1_000


class _AskedSchema(NamedTuple):
    """A schema that was asked for: why it cannot be used, or how it is read; JSON if it is not Avro."""

    fault: str = ""
    avro: AvroSchema | None = None


class MessageDecoder:
    """Decodes messages by the schemas of a registry. Each schema is asked for once, also one that it does not have.

    Args:
        settings: settings of Kafka, with those of the registry.
        longest: most bytes of a message, framed or decoded.
    """

    def __init__(self, settings: KafkaSettings, longest: int) -> None:
        self._registry, self._longest = SchemaRegistry(settings), longest
        self._asked: dict[int, _AskedSchema] = {}

    def decode(self, values: Sequence[bytes | None]) -> Iterator[Decoded]:
        """Decode framed values, and yield what became of each value, in order. Values without a frame stay as they are.

        Raises:
            OSError: the registry does not answer, or refuses access.
        """
        schemas = [self._schema_of(value) for value in values]
        contents = self._of_avro(
            [
                (number, value[FRAME_BYTES:])
                for value, schema in zip(values, schemas, strict=True)
                if value is not None and schema is not None and schema.avro is not None
                if (number := schema_number(value)) is not None
            ]
        )
        for value, schema in zip(values, schemas, strict=True):
            if value is None or schema is None:
                yield Decoded(value)
            elif schema.fault:
                yield fault(schema.fault)
            else:
                yield Decoded(value[FRAME_BYTES:]) if schema.avro is None else next(contents)

    def _schema_of(self, value: bytes | None) -> _AskedSchema | None:
        """Return what is known of the schema that a value names; None if it names none."""
        number = schema_number(value)
        if value is None or number is None:
            return None
        if len(value) > self._longest:
            return _AskedSchema(too_long(len(value), self._longest))
        if number not in self._asked:
            self._asked[number] = self._ask(number)
        return self._asked[number]

    def _of_avro(self, messages: Sequence[tuple[int, bytes]]) -> Iterator[Decoded]:
        schemas = {number: schema for number, _ in messages if (schema := self._asked[number].avro) is not None}
        answered, at_once = 0, _AT_ONCE
        while answered < len(messages):
            try:
                left = messages[answered:]
                for answers in in_child(
                    decode_avro, schemas, left, self._longest, at_once, memory=MEMORY, silence=SILENCE
                ):
                    yield from answers
                    answered += len(answers)
            except (ChildEndedError, WorkFailedError) as error:
                # One by one, so that the message that ended it is the first without an answer.
                if at_once == 1:
                    yield fault(f"the message cannot be decoded by schema {messages[answered][0]}: its decoder {error}")
                    answered += 1
                at_once = 1

    def _ask(self, number: int) -> _AskedSchema:
        schema = self._registry.schema(number)
        if schema is None:
            return _AskedSchema(f"the message names schema {number}, which the registry does not have")
        form = schema.schema_type or "AVRO"
        if form == "JSON":
            return _AskedSchema()
        if form != "AVRO":
            return _AskedSchema(
                f"the message names schema {number} in {form}, which is not read: Avro and JSON Schema are"
            )
        try:
            references: dict[tuple[str, object], str] = {}
            self._add_references(schema, references)
        except _ReferenceError as error:
            return _AskedSchema(f"the message names schema {number}, which cannot be used: {error}")
        return _AskedSchema(avro=AvroSchema(schema.schema_str or "", tuple(references.values())))

    def _add_references(self, schema: "Schema", texts: dict[tuple[str, object], str], depth: int = 0) -> None:
        """Add the texts of the schemas that one refers to, each after those that it refers to."""
        for reference in schema.references or []:
            subject, version = reference.subject or "", reference.version or "latest"
            if (subject, version) in texts:
                continue
            if len(texts) > _MOST_REFERENCES or depth > _MOST_REFERENCES // 10:
                raise _ReferenceError("it refers to too many others, or to itself")
            other = self._registry.version(subject, version)
            if other is None:
                raise _ReferenceError(f"it refers to version {version} of {subject}, which the registry does not have")
            self._add_references(other, texts, depth + 1)
            texts[subject, version] = other.schema_str or ""


class _ReferenceError(Exception):
    """A schema refers to one that cannot be had."""
