"""Schemas, messages and keys that would do harm; and as a program, an ingest of a topic of them: `… hostile TOPIC HOME`."""

import json
import struct
import sys
from typing import Any

from confluent_kafka.schema_registry import Schema, SchemaReference

from keyfold.ingestion import KafkaTopic
from keyfold.lakehouse import Lakehouse
from keyfold.runners import Runners
from keyfold.runs import ingest
from keyfold.stream import Source, Stream
from tests.schemas import schema_of

LONGEST = 1 << 20


def record(*types: Any, name: str = "R") -> dict[str, Any]:
    fields = [{"name": f"f{at}", "type": kind} for at, kind in enumerate(types)]
    return {"type": "record", "name": name, "fields": fields}


def logical(kind: str, logical_type: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical_type, **more}


DECIMAL = logical("bytes", "decimal", precision=9, scale=2)
AVRO: dict[str, Any] = {
    "a list of itself": record({"type": "array", "items": "R"}),
    "a chain": record("long", ["null", "R"]),
    "a map of itself": record({"type": "map", "values": "R"}),
    "two that have each other": record({"type": "array", "items": record(["null", "R"], "string", name="S")}),
    "itself without end": record("R"),
    "each plain type": record("int", "long", "float", "double", "boolean", "string", "bytes", "null"),
    "each logical type": record(
        DECIMAL,
        logical("int", "date"),
        logical("long", "timestamp-micros"),
        logical("long", "timestamp-millis"),
        logical("int", "time-millis"),
        logical("long", "time-micros"),
        logical("string", "uuid"),
        {"type": "fixed", "name": "D", "size": 12, "logicalType": "decimal", "precision": 20, "scale": 3},
    ),
    "lists and maps": record(
        {"type": "array", "items": "long"}, {"type": "map", "values": ["null", "string", "double"]}
    ),
    "names and symbols": record(
        {"type": "enum", "name": "E", "symbols": ["A", "B"]}, {"type": "fixed", "name": "F", "size": 3}, ["null", "E"]
    ),
    "no record": {"type": "array", "items": DECIMAL},
    "a text": "string",
    "a union": ["null", "long", {"type": "map", "values": "bytes"}],
    "lists of nothing": record({"type": "array", "items": "null"}),
    "lists of empty records": record({"type": "array", "items": record(name="S")}),
    "many of nothing": record(*["null"] * 1_001),
    "a tree of nothing": record(*[record(*[record(*["null"] * 20, name="U")] + ["U"] * 19, name="T")] + ["T"] * 19),
    "long names": record({"type": "array", "items": record(*["boolean"], name="S" * 5_000) | {"doc": "x"}}),
    "a scale above its precision": record(logical("bytes", "decimal", precision=2, scale=5)),
    "an unknown type": record("Elsewhere"),
    "no schema": 3,
    "a field of half a pair": {"type": "record", "name": "R", "fields": [{"name": "\ud800", "type": "int"}]},
    "a fixed of negative length": record({"type": "fixed", "name": "F", "size": -3}),
    "a fixed of a terabyte": record({"type": "fixed", "name": "F", "size": 1 << 40}),
    "an enum without symbols": record({"type": "enum", "name": "E", "symbols": []}),
}
OTHERS = {
    "JSON": Schema('{"type": "object"}', "JSON"),
    "Protobuf": Schema('syntax = "proto3"; message Ride {}', "PROTOBUF"),
    "a form of tomorrow": Schema("{}", "XML"),
    "no JSON": Schema('{"type": "record', "AVRO"),
    "a schema nested deeply": Schema('{"type":"array","items":' * 20_000 + '"int"' + "}" * 20_000, "AVRO"),
    "a chain of types": Schema(
        json.dumps([record(name="N0"), *(record(f"N{at - 1}", "int", name=f"N{at}") for at in range(1, 5_000))]), "AVRO"
    ),
    "an import that is missing": Schema(json.dumps(record("Elsewhere")), "AVRO", [SchemaReference("E", "gone", 1)]),
}


def varint(number: int) -> bytes:
    """A number in zigzag encoding, of any length."""
    number, content = (number << 1) ^ (number >> 200), bytearray()
    while number > 0x7F:
        content.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*content, number])


HOSTILE = [
    b"",
    b"\0",
    b"\x02" * 5_000,
    b"\x02" * 200_000 + b"\0",
    b"\0\x02" * 100_000,
    b"\x02\x00" * 100_000,
    b"\x80" * 300_000 + b"\x01",
    b"\xff" * 900_000,
    b"\xff" * 9 + b"\x01",
    varint(2**62) + b"x",
    varint(-(2**62)) + varint(5) + b"x",
    varint(-(2**63)),
    varint(2**63 - 1),
    varint(-1) + b"abc",
    varint(300_000) + b"\x7f" * 300_000,
    varint(4) + b"\xff\xfe\xfd\xfc",
    varint(3) + b"\xed\xa0\x80",
    struct.pack("<d", float("nan")) * 4,
    b"\x01" * 64,
    b"\x7f" * 64,
]


KEYS = [b'"ann"', b'{"a": 1}', b'"broken', b'"\\ud800"', b'"\xff"', b'"', b"[" * 5_000, b'"' + b"a" * 300_000]

COLUMNS = schema_of("f0 string, f1 string, kafka_key string")
STREAM = Stream("hostile", COLUMNS, "ingested_at", sources={"kafka_key": Source("kafka_key")}, max_line_bytes=LONGEST)


if __name__ == "__main__":
    with Runners.from_environment() as runners:
        summary = ingest(Lakehouse(sys.argv[2]), STREAM, KafkaTopic(sys.argv[1]), runners=runners)
    print(
        json.dumps({"rows_read": summary.rows_read, "accepted": summary.accepted, "quarantined": summary.quarantined})
    )
