"""Decode messages whose schemas are in a registry: Avro, Protobuf and JSON Schema become JSON, which is parsed as of other messages.

Each message names the schema that it was written with, so a topic may have messages of many versions: a field that the stream
does not know is shown as drift, as a column of a file is.

Source of the framing: Confluent's wire format, https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop.
"""

import base64
import io
import json
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from keyfold.errors import first_line
from keyfold.lazy_names import from_extra

if TYPE_CHECKING:
    import fastavro
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError
    from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
    from google.protobuf.message import Message
else:
    (fastavro,) = from_extra("registry", "fastavro")
    SchemaRegistryClient, SchemaRegistryError = from_extra(
        "registry", "confluent_kafka.schema_registry", "SchemaRegistryClient", "SchemaRegistryError"
    )
    (descriptor_pb2,) = from_extra("registry", "google.protobuf.descriptor_pb2")
    (descriptor_pool,) = from_extra("registry", "google.protobuf.descriptor_pool")
    (json_format,) = from_extra("registry", "google.protobuf.json_format")
    (message_factory,) = from_extra("registry", "google.protobuf.message_factory")

_MAGIC = 0
_FRAME = 5
"""A zero byte, and the number of the schema in four bytes."""
_UNKNOWN_SCHEMA = 40403
_DESCRIPTOR = "serialized"
"""The form of a schema of Protobuf that needs no compiler: a file's descriptor in base64."""
_NUMBER = re.compile(r"\d+(\.\d+)?")
_OBJECT = re.compile(r" (from|of|by) <[^>]* at 0x[^>]*>")

_Decode = Callable[[bytes], str]


class Registry:
    """A schema registry, as a reader of messages uses it.

    Args:
        conf: settings of Confluent's client: `url`, `basic.auth.user.info`, `ssl.ca.location`, …; not shown.
    """

    def __init__(self, conf: Mapping[str, str]) -> None:
        # The client wants numbers as numbers.
        self._conf = {name: float(value) if _NUMBER.fullmatch(value) else value for name, value in conf.items()}
        self._client = SchemaRegistryClient.new_client(self._conf)
        self._known: dict[int, _Decode | str] = {}

    def decode(self, values: Sequence[bytes | None]) -> tuple[list[bytes | None], dict[int, str]]:
        """Turn framed values into JSON, and return the faults of those that cannot be, by position.

        Values without a frame stay as they are.

        Raises:
            OSError: the registry does not answer, or refuses access.
        """
        texts, faults = list(values), dict[int, str]()
        for at, value in enumerate(values):
            if value is None or len(value) < _FRAME or value[0] != _MAGIC:
                continue
            number = int.from_bytes(value[1:_FRAME], "big")
            decode = self._known.get(number) or self._learn(number)
            if isinstance(decode, str):
                faults[at] = decode
                continue
            try:
                texts[at] = decode(value[_FRAME:]).encode()
            # The libraries raise errors of many kinds for bytes that are not of the schema.
            except Exception as error:
                said = _OBJECT.sub("", first_line(error))
                faults[at] = f"the message cannot be decoded by schema {number}: {said}"
        return texts, faults

    def _learn(self, number: int) -> _Decode | str:
        try:
            schema = self._client.get_schema(number)
            if schema.schema_type == "PROTOBUF" and not _is_descriptor(schema):
                # The text of a file, which only the registry parses. By another client: one keeps what it was answered.
                schema = SchemaRegistryClient.new_client(self._conf).get_schema(number, fmt=_DESCRIPTOR)
            known = self._decoder(schema)
        except SchemaRegistryError as error:
            # Not kept: it may be registered by the time that the next message is read.
            if error.error_code == _UNKNOWN_SCHEMA or error.http_status_code == 404:
                return f"the message names schema {number}, which the registry does not have"
            raise self._failed(error) from None
        except Exception as error:
            raise self._failed(error) from None
        self._known[number] = known
        return known

    def _decoder(self, schema: "Schema") -> _Decode | str:
        if schema.schema_type == "JSON":
            return bytes.decode
        if schema.schema_type == "PROTOBUF":
            return _of_protobuf(self._protobuf_file(schema, "message.proto", descriptor_pool.DescriptorPool()))
        named: dict[str, Any] = {}
        self._add_references(schema, named)
        parsed = fastavro.parse_schema(json.loads(schema.schema_str or ""), named_schemas=named)
        return lambda content: _of_avro(content, parsed)

    def _add_references(self, schema: "Schema", named: dict[str, Any]) -> None:
        for reference in schema.references or []:
            other = self._client.get_version(reference.subject or "", reference.version or "latest").schema
            self._add_references(other, named)
            fastavro.parse_schema(json.loads(other.schema_str or ""), named_schemas=named)

    def _protobuf_file(self, schema: "Schema", name: str, pool: Any) -> Any:
        """Return a file's descriptor, after adding it and what it imports to a pool."""
        file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(schema.schema_str or "", validate=True))
        file.name = name
        for reference in schema.references or []:
            version = reference.version or "latest"
            other = self._client.get_version(reference.subject or "", version, fmt=_DESCRIPTOR).schema
            self._protobuf_file(other, reference.name or "", pool)
        for imported in file.dependency:
            if imported.startswith("google/"):
                _add_google_file(imported, pool)
        pool.Add(file)
        return pool.FindFileByName(name)

    def _failed(self, error: Exception) -> OSError:
        said = first_line(error)
        for name, value in self._conf.items():
            if name != "url" and isinstance(value, str):
                said = said.replace(value, "(hidden)")
        return OSError(f"the schema registry at {self._conf.get('url')} failed: {said}")


def _of_avro(content: bytes, schema: Any) -> str:
    stream = io.BytesIO(content)
    value = fastavro.schemaless_reader(stream, schema)
    if left := len(content) - stream.tell():
        raise ValueError(f"{left} bytes are left after its last field")
    return json.dumps(value, default=_as_json, allow_nan=False, ensure_ascii=False)


def _of_protobuf(file: Any) -> _Decode:
    classes: dict[tuple[int, ...], type[Message]] = {}

    def decode(content: bytes) -> str:
        path, at = _message_path(content)
        if path not in classes:
            found = list(file.message_types_by_name.values())[path[0]]
            for number in path[1:]:
                found = found.nested_types[number]
            classes[path] = message_factory.GetMessageClass(found)
        message = classes[path].FromString(content[at:])
        return json.dumps(_fields(message), default=_as_json, allow_nan=False, ensure_ascii=False)

    return decode


def _is_descriptor(schema: "Schema") -> bool:
    try:
        return bool(base64.b64decode(schema.schema_str or "", validate=True))
    except ValueError:
        return False


def _message_path(content: bytes) -> tuple[tuple[int, ...], int]:
    """Return which message of its file it is, as the place at each level of nesting, and where the message begins."""
    count, at = _varint(content, 0)
    path = []
    for _ in range(count):
        number, at = _varint(content, at)
        path.append(number)
    # The first message of a file is written as no numbers at all.
    return tuple(path) or (0,), at


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """Read a number in zigzag encoding, and return where the next one begins."""
    value = shift = 0
    while True:
        value |= (content[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if content[at - 1] < 0x80:
            return (value >> 1) ^ -(value & 1), at


def _fields(message: Any) -> Any:
    """Return a message as JSON's values, with numbers as numbers: Protobuf's own JSON has those of 64 bits as text."""
    if message.DESCRIPTOR.full_name.startswith("google.protobuf."):
        return json_format.MessageToDict(message)
    found = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.has_presence and not message.HasField(field.name):
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            found[field.name] = {
                str(key): _one(field.message_type.fields_by_name["value"], value[key]) for key in value
            }
        elif field.is_repeated:
            found[field.name] = [_one(field, one) for one in value]
        else:
            found[field.name] = _one(field, value)
    return found


def _one(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return _fields(value)
    if field.enum_type is not None:
        name = field.enum_type.values_by_number.get(value)
        return name.name if name else value
    return value


def _add_google_file(name: str, pool: Any) -> None:
    file = descriptor_pb2.FileDescriptorProto()
    descriptor_pool.Default().FindFileByName(name).CopyToProto(file)
    for imported in file.dependency:
        _add_google_file(imported, pool)
    pool.Add(file)


def _as_json(value: Any) -> Any:
    """Return a value that JSON does not have as text: times in ISO 8601, decimals in full, bytes in base64."""
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal | uuid.UUID):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} has no form in JSON")
