"""Encode rows for a topic: as JSON, or in Avro or with a JSON Schema, whose schema is registered for the topic.

KEYFOLD_KAFKA_SINKS="ride_summaries=rides.summaries"              JSON
KEYFOLD_KAFKA_SINKS="ride_summaries=avro:rides.summaries"         Avro
KEYFOLD_KAFKA_SINKS="ride_summaries=json-schema:rides.summaries"  JSON, with a JSON Schema
"""

import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from keyfold.errors import Misconfigured, Unreachable
from keyfold.ingestion.kafka.kafka_settings import KafkaSettings
from keyfold.ingestion.kafka.schema_registry import RefusedSchemaError, SchemaRegistry, frame
from keyfold.lazy_names import from_extra
from keyfold.times import ISO_FORMAT

if TYPE_CHECKING:
    import fastavro
else:
    (fastavro,) = from_extra("registry", "fastavro")

FORMATS = ("json", "avro", "json-schema")

Encode = Callable[[pl.DataFrame], Sequence[bytes]]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN: Mapping[type[pl.DataType], str] = {
    pl.String: "string", pl.Categorical: "string", pl.Enum: "string", pl.Boolean: "boolean", pl.Binary: "bytes",
    pl.Int8: "int", pl.Int16: "int", pl.Int32: "int", pl.Int64: "long", pl.UInt8: "int", pl.UInt16: "int", pl.UInt32: "long",
    pl.Float32: "float", pl.Float64: "double", pl.Duration: "long",
}  # fmt: skip
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
        beginning = _registered(settings, topic, "AVRO", json.dumps(schema))
        parsed = fastavro.parse_schema(schema)

        def as_avro(rows: pl.DataFrame) -> Sequence[bytes]:
            durations = [name for name, kind in rows.schema.items() if isinstance(kind, pl.Duration)]
            encoded = []
            for row in rows.with_columns(pl.col(durations).dt.total_microseconds()).iter_rows(named=True):
                stream = io.BytesIO()
                fastavro.schemaless_writer(stream, parsed, row)
                encoded.append(beginning + stream.getvalue())
            return encoded

        return as_avro
    schema = {
        "title": table,
        "type": "object",
        "properties": {name: _json_type(kind) for name, kind in columns.items()},
    }
    beginning = _registered(settings, topic, "JSON", json.dumps(schema))
    return lambda rows: [beginning + value for value in as_json(rows)]


def as_json(rows: pl.DataFrame) -> Sequence[bytes]:
    """Encode rows as JSON objects, with times in ISO 8601."""
    times = [name for name, kind in rows.schema.items() if isinstance(kind, pl.Datetime)]
    return (
        rows.with_columns(pl.col(name).dt.strftime(ISO_FORMAT) for name in times).write_ndjson().encode().splitlines()
    )


def _registered(settings: KafkaSettings, topic: str, form: str, schema: str) -> bytes:
    """Register a schema for a topic's values, and return what each of them begins with."""
    try:
        return frame(SchemaRegistry(settings).register(f"{topic}-value", form, schema))
    except RefusedSchemaError as error:
        raise Misconfigured(
            f"the schema registry at {settings.registry_address} refuses the schema of topic {topic}: {error}; make the table's "
            "new columns fit the topic's rule of compatibility, or name a new topic"
        ) from None
    except OSError as error:
        raise Unreachable(f"{error}; the next run sends the rows of topic {topic}") from None


def _avro_fields(record: str, columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    if wrong := next((name for name in columns if not _NAME.fullmatch(name)), None):
        raise Misconfigured(
            f"{record}: column {wrong!r} has a name that Avro cannot have: rename it, with letters, digits and underscores, or publish the table as JSON"
        )
    return [
        {"name": name, "type": ["null", _avro_type(f"{record}_{name}", kind)], "default": None}
        for name, kind in columns.items()
    ]


def _avro_type(label: str, kind: pl.DataType) -> Any:
    if isinstance(kind, pl.Datetime):
        return {"type": "long", "logicalType": "timestamp-micros"}
    if isinstance(kind, pl.Date):
        return {"type": "int", "logicalType": "date"}
    if isinstance(kind, pl.Decimal):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if isinstance(kind, pl.List):
        return {"type": "array", "items": ["null", _avro_type(label, _inner(kind))]}
    if isinstance(kind, pl.Struct):
        return {"type": "record", "name": label, "fields": _avro_fields(label, kind.to_schema())}
    if (plain := _PLAIN.get(type(kind))) is None:
        raise Misconfigured(f"{label}: {kind} has no form in Avro; leave the column out, or cast it")
    return plain


def _json_type(kind: Any) -> dict[str, Any]:
    if isinstance(kind, pl.List):
        return {"type": ["null", "array"], "items": _json_type(_inner(kind))}
    if isinstance(kind, pl.Struct):
        return {
            "type": ["null", "object"],
            "properties": {name: _json_type(inner) for name, inner in kind.to_schema().items()},
        }
    if isinstance(kind, pl.Datetime):
        return {"type": ["null", "string"], "format": "date-time"}
    return {"type": ["null", _JSON_TYPES.get(_PLAIN.get(type(kind), ""), "string")]}


def _inner(kind: pl.List) -> pl.DataType:
    return pl.Series(dtype=kind).explode().dtype
