"""Decode messages whose schemas are in a registry: those of Avro become JSON, and those of JSON Schema are JSON.

Each message names the schema that it was written with, so a topic may have messages of many versions: a field that the stream
does not know is shown as drift, as a column of a file is. A message is decoded in a child process, which it may end (`avro`).

Source of the framing: Confluent's wire format, https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop.
"""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from keyfold.errors import Misconfigured, first_line
from keyfold.ingestion.child import ChildEndedError, WorkFailedError, in_child
from keyfold.ingestion.kafka.avro import AvroSchema, decode_avro
from keyfold.ingestion.kafka.decoded import Decoded, fault, too_long
from keyfold.ingestion.kafka.kafka_settings import KafkaSettings
from keyfold.lazy_names import from_extra

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError
else:
    SchemaRegistryClient, SchemaRegistryError = from_extra(
        "registry", "confluent_kafka.schema_registry", "SchemaRegistryClient", "SchemaRegistryError"
    )

MEMORY = 1 << 30
"""Bytes that a child may take for messages."""

SILENCE = 120.0
"""Seconds without an answer after which the child is ended, and the message is not decoded."""

_MAGIC = 0
_FRAME = 5
"""A zero byte, and the number of the schema in four bytes."""

_AT_ONCE = 1_000
"""Messages of which a child answers the results together."""

_MOST_REFERENCES = 1_000
_NUMBER = re.compile(r"\d+(\.\d+)?")


def registry_client(settings: KafkaSettings) -> "SchemaRegistryClient":
    """Return Confluent's client for the schema registry.

    Raises:
        Misconfigured: the client refuses its settings.
    """
    # The client wants numbers as numbers.
    conf = {name: float(value) if _NUMBER.fullmatch(value) else value for name, value in settings.registry.items()}
    try:
        return SchemaRegistryClient.new_client(conf)
    except (OSError, TypeError, ValueError) as error:
        said = settings.without_secrets(first_line(error))
        raise Misconfigured(
            f"the schema registry's client refuses its settings: {said}; correct schema.registry.… in KEYFOLD_KAFKA_CONF"
        ) from None


class _Known(NamedTuple):
    """A schema that was asked for: why it cannot be used, or how it is read; JSON if it is not Avro."""

    fault: str = ""
    avro: AvroSchema | None = None


class Registry:
    """A schema registry, as a reader of messages uses it. Each schema is asked for once, also one that it does not have.

    Args:
        settings: settings of Kafka, with those of the registry.
        longest: most bytes of a message, framed or decoded.
    """

    def __init__(self, settings: KafkaSettings, longest: int) -> None:
        self._settings, self._longest = settings, longest
        self._client = registry_client(settings)
        self._known: dict[int, _Known] = {}

    def decode(self, values: Sequence[bytes | None]) -> Iterator[Decoded]:
        """Decode framed values, and yield what became of each value, in order. Values without a frame stay as they are.

        Raises:
            OSError: the registry does not answer, or refuses access.
        """
        schemas = [self._known_of(value) for value in values]
        contents = self._of_avro(
            [
                (_number_of(value), value[_FRAME:])
                for value, schema in zip(values, schemas, strict=True)
                if value is not None and schema is not None and schema.avro is not None
            ]
        )
        for value, schema in zip(values, schemas, strict=True):
            if value is None or schema is None:
                yield Decoded(value)
            elif schema.fault:
                yield fault(schema.fault)
            else:
                yield Decoded(value[_FRAME:]) if schema.avro is None else next(contents)

    def _known_of(self, value: bytes | None) -> _Known | None:
        """Return what is known of the schema that a value names; None if it names none."""
        if value is None or len(value) < _FRAME or value[0] != _MAGIC:
            return None
        if len(value) > self._longest:
            return _Known(too_long(len(value), self._longest))
        number = _number_of(value)
        if number not in self._known:
            self._known[number] = self._learn(number)
        return self._known[number]

    def _of_avro(self, messages: Sequence[tuple[int, bytes]]) -> Iterator[Decoded]:
        schemas = {number: schema for number, _ in messages if (schema := self._known[number].avro) is not None}
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

    def _learn(self, number: int) -> _Known:
        try:
            schema = self._client.get_schema(number)
        except Exception as error:
            if _is_missing(error):
                return _Known(f"the message names schema {number}, which the registry does not have")
            raise self._failed(error) from None
        form = schema.schema_type or "AVRO"
        if form == "JSON":
            return _Known()
        if form != "AVRO":
            return _Known(f"the message names schema {number} in {form}, which is not read: Avro and JSON Schema are")
        try:
            references: dict[tuple[str, object], str] = {}
            self._add_references(schema, references)
        except _ReferenceError as error:
            return _Known(f"the message names schema {number}, which cannot be used: {error}")
        return _Known(avro=AvroSchema(schema.schema_str or "", tuple(references.values())))

    def _add_references(self, schema: "Schema", texts: dict[tuple[str, object], str], depth: int = 0) -> None:
        """Add the texts of the schemas that one refers to, each after those that it refers to."""
        for reference in schema.references or []:
            subject, version = reference.subject or "", reference.version or "latest"
            if (subject, version) in texts:
                continue
            if len(texts) > _MOST_REFERENCES or depth > _MOST_REFERENCES // 10:
                raise _ReferenceError("it refers to too many others, or to itself")
            try:
                other = self._client.get_version(subject, version).schema
            except Exception as error:
                if _is_missing(error):
                    raise _ReferenceError(
                        f"it refers to version {version} of {subject}, which the registry does not have"
                    ) from None
                raise self._failed(error) from None
            self._add_references(other, texts, depth + 1)
            texts[subject, version] = other.schema_str or ""

    def _failed(self, error: Exception) -> OSError:
        said = self._settings.without_secrets(first_line(error))
        return OSError(f"the schema registry at {self._settings.registry_address} failed: {said}")


class _ReferenceError(Exception):
    """A schema refers to one that cannot be had."""


def _number_of(value: bytes) -> int:
    return int.from_bytes(value[1:_FRAME], "big")


def _is_missing(error: Any) -> bool:
    return isinstance(error, SchemaRegistryError) and error.http_status_code == 404
