"""Encode rows for a topic: as JSON, or in Avro, in Protobuf or with a JSON Schema, whose schema is registered for the topic.

KEYFOLD_KAFKA_SINKS="ride_summaries=rides.summaries"              JSON
KEYFOLD_KAFKA_SINKS="ride_summaries=avro:rides.summaries"         Avro
KEYFOLD_KAFKA_SINKS="ride_summaries=protobuf:rides.summaries"     Protobuf
KEYFOLD_KAFKA_SINKS="ride_summaries=json-schema:rides.summaries"  JSON, with a JSON Schema
"""

import base64
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from importlib import import_module
from typing import Any

import polars as pl

from keyfold.errors import Misconfigured, Unreachable, first_line
from keyfold.ingestion.kafka.settings import KafkaSettings
from keyfold.times import ISO_FORMAT

FORMATS = ("json", "avro", "json-schema", "protobuf")

Encode = Callable[[pl.DataFrame], Sequence[bytes]]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN: Mapping[type[pl.DataType], str] = {
    pl.String: "string", pl.Categorical: "string", pl.Enum: "string", pl.Boolean: "boolean", pl.Binary: "bytes",
    pl.Int8: "int", pl.Int16: "int", pl.Int32: "int", pl.Int64: "long", pl.UInt8: "int", pl.UInt16: "int", pl.UInt32: "long",
    pl.Float32: "float", pl.Float64: "double", pl.Duration: "long",
}  # fmt: skip
_PROTOBUF_TYPES = {"boolean": "BOOL", "int": "INT32", "long": "INT64"}
_TIMESTAMP = "google/protobuf/timestamp.proto"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_JSON_TYPES = {
    "string": "string",
    "boolean": "boolean",
    "int": "integer",
    "long": "integer",
    "float": "number",
    "double": "number",
}


def encoder(settings: KafkaSettings, form: str, topic: str, table: str, columns: Mapping[str, pl.DataType]) -> Encode:
    """Return the function that encodes rows of a table.

    Args:
        settings: settings of Kafka, with those of the registry if the format needs it.
        form: one of `FORMATS`.
        topic: the topic, for whose values the schema is registered (`TOPIC-value`).
        table: the table's name.
        columns: its columns.

    Raises:
        Misconfigured: there is no registry, a column has no form in the format, or the registry refuses the schema, since readers of
            the topic's earlier one could not read it.
        Unreachable: the registry does not answer.
    """
    if form == "json":
        return as_json
    if not settings.registry:
        raise Misconfigured(
            f"table {table} goes to topic {topic} in {form}, which needs schema.registry.url in KEYFOLD_KAFKA_CONF"
        )
    if form == "avro":
        schema = {"type": "record", "name": table, "namespace": "keyfold", "fields": _avro_fields(table, columns)}
        frame = _registered(settings, topic, "AVRO", json.dumps(schema))
        parsed, write = import_module("fastavro").parse_schema(schema), import_module("fastavro").schemaless_writer

        def as_avro(rows: pl.DataFrame) -> Sequence[bytes]:
            durations = [name for name, kind in rows.schema.items() if isinstance(kind, pl.Duration)]
            encoded = []
            for row in rows.with_columns(pl.col(durations).dt.total_microseconds()).iter_rows(named=True):
                stream = io.BytesIO()
                write(stream, parsed, row)
                encoded.append(frame + stream.getvalue())
            return encoded

        return as_avro
    if form == "protobuf":
        return _protobuf_encoder(settings, topic, table, columns)
    schema = {
        "title": table,
        "type": "object",
        "properties": {name: _json_type(kind) for name, kind in columns.items()},
    }
    frame = _registered(settings, topic, "JSON", json.dumps(schema))
    return lambda rows: [frame + value for value in as_json(rows)]


def as_json(rows: pl.DataFrame) -> Sequence[bytes]:
    """Encode rows as JSON objects, with times in ISO 8601."""
    times = [name for name, kind in rows.schema.items() if isinstance(kind, pl.Datetime)]
    return (
        rows.with_columns(pl.col(name).dt.strftime(ISO_FORMAT) for name in times).write_ndjson().encode().splitlines()
    )


def _registered(settings: KafkaSettings, topic: str, kind: str, schema: str) -> bytes:
    """Register a schema, and return what each of its messages begins with."""
    library, url = _library(topic, "confluent_kafka.schema_registry"), settings.registry["url"]
    try:
        client = library.SchemaRegistryClient.new_client(settings.registry)
        number = client.register_schema(f"{topic}-value", library.Schema(schema, kind))
    except library.SchemaRegistryError as error:
        raise Misconfigured(
            f"the schema registry at {url} refuses the schema of topic {topic}: {settings.without_secrets(first_line(error))}; make "
            "the table's new columns fit the topic's rule of compatibility, or name a new topic"
        ) from None
    # Whatever its client of HTTP raises.
    except Exception as error:
        said = settings.without_secrets(first_line(error))
        raise Unreachable(
            f"the schema registry at {url} failed: {said}; the next run sends the rows of topic {topic}"
        ) from None
    return b"\0" + number.to_bytes(4, "big")


def _library(topic: str, name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError:
        raise Misconfigured(f"topic {topic} is written with a schema; install keyfold[registry]") from None


def _check_names(where: str, columns: Mapping[str, Any], form: str) -> None:
    for name in columns:
        if not _NAME.fullmatch(name):
            raise Misconfigured(
                f"{where}: column {name!r} has no name for {form}, which takes letters, digits and underscores"
            )


def _protobuf_encoder(settings: KafkaSettings, topic: str, table: str, columns: Mapping[str, pl.DataType]) -> Encode:
    """Return the function that encodes rows as messages, each column a field whose number is the column's place.

    Absent is NULL, and of a list it is empty. The syntax is of Protobuf 2, where each field may be absent.
    """
    library = {
        name: _library(topic, f"google.protobuf.{name}")
        for name in ("descriptor_pb2", "descriptor_pool", "message_factory", "timestamp_pb2")
    }
    file = library["descriptor_pb2"].FileDescriptorProto(name=f"{table}.proto", package="keyfold")
    file.dependency.append(_TIMESTAMP)
    _add_fields(file.message_type.add(name=table), table, columns)
    written = file.SerializeToString()
    # After the number of the schema, which of its messages it is: the first.
    frame = _registered(settings, topic, "PROTOBUF", base64.b64encode(written).decode()) + b"\0"
    pool = library["descriptor_pool"].DescriptorPool()
    pool.AddSerializedFile(library["timestamp_pb2"].DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(written)
    message = library["message_factory"].GetMessageClass(pool.FindMessageTypeByName(f"keyfold.{table}"))

    def as_protobuf(rows: pl.DataFrame) -> Sequence[bytes]:
        ready = ({name: _protobuf_value(value) for name, value in row.items()} for row in rows.iter_rows(named=True))
        try:
            return [frame + message(**row).SerializeToString() for row in ready]
        except TypeError as error:
            raise Misconfigured(
                f"table {table}: a list with NULL has no form in Protobuf ({first_line(error)})"
            ) from None

    return as_protobuf


def _add_fields(message: Any, where: str, columns: Mapping[str, Any]) -> None:
    _check_names(where, columns, "Protobuf")
    for number, (name, given) in enumerate(columns.items(), 1):
        kind = _inner(given) if isinstance(given, pl.List) else given
        field = message.field.add(name=name, number=number)
        field.label = field.LABEL_REPEATED if isinstance(given, pl.List) else field.LABEL_OPTIONAL
        if isinstance(kind, pl.Struct):
            field.type, field.type_name = field.TYPE_MESSAGE, f"{name}_row"
            _add_fields(message.nested_type.add(name=f"{name}_row"), f"{where}_{name}", kind.to_schema())
        elif isinstance(kind, pl.Datetime):
            field.type, field.type_name = field.TYPE_MESSAGE, ".google.protobuf.Timestamp"
        elif isinstance(kind, pl.Date | pl.Decimal):
            field.type = field.TYPE_STRING
        elif (plain := _PLAIN.get(type(kind))) is not None:
            field.type = getattr(field, f"TYPE_{_PROTOBUF_TYPES.get(plain, plain.upper())}")
        else:
            raise Misconfigured(f"{where}_{name}: {given} has no form in Protobuf; leave the column out, or cast it")


def _protobuf_value(value: Any) -> Any:
    if isinstance(value, datetime):
        since = (value if value.tzinfo else value.replace(tzinfo=UTC)) - _EPOCH
        return {"seconds": since // timedelta(seconds=1), "nanos": since.microseconds * 1000}
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    if isinstance(value, date | Decimal):
        return str(value)
    if isinstance(value, dict):
        return {name: _protobuf_value(one) for name, one in value.items()}
    return [_protobuf_value(one) for one in value] if isinstance(value, list) else value


def _avro_fields(where: str, columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    _check_names(where, columns, "Avro")
    return [
        {"name": name, "type": ["null", _avro_type(f"{where}_{name}", kind)], "default": None}
        for name, kind in columns.items()
    ]


def _avro_type(where: str, kind: pl.DataType) -> Any:
    if isinstance(kind, pl.Datetime):
        return {"type": "long", "logicalType": "timestamp-micros"}
    if isinstance(kind, pl.Date):
        return {"type": "int", "logicalType": "date"}
    if isinstance(kind, pl.Decimal):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if isinstance(kind, pl.List):
        return {"type": "array", "items": ["null", _avro_type(where, _inner(kind))]}
    if isinstance(kind, pl.Struct):
        return {"type": "record", "name": where, "fields": _avro_fields(where, kind.to_schema())}
    if (plain := _PLAIN.get(type(kind))) is None:
        raise Misconfigured(f"{where}: {kind} has no form in Avro; leave the column out, or cast it")
    return plain


def _json_type(kind: Any) -> dict[str, Any]:
    if isinstance(kind, pl.List):
        return {"type": ["null", "array"], "items": _json_type(_inner(kind))}
    if isinstance(kind, pl.Struct):
        return {
            "type": ["null", "object"],
            "properties": {name: _json_type(one) for name, one in kind.to_schema().items()},
        }
    if isinstance(kind, pl.Datetime):
        return {"type": ["null", "string"], "format": "date-time"}
    return {"type": ["null", _JSON_TYPES.get(_PLAIN.get(type(kind), ""), "string")]}


def _inner(kind: pl.List) -> pl.DataType:
    return pl.Series(dtype=kind).explode().dtype
