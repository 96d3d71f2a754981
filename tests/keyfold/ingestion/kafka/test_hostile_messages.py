"""Any bytes under any registered schema end as an event or in quarantine, in bounded time and memory, and never end the process."""

import io
import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from fastavro import parse_schema, schemaless_writer
from fastavro.utils import generate_many

from keyfold.ingestion.kafka import message_decoder
from keyfold.ingestion.kafka.avro import decode_avro
from keyfold.ingestion.kafka.decoded import Decoded
from keyfold.ingestion.kafka.kafka_settings import KafkaSettings
from keyfold.ingestion.kafka.message_columns import key_texts
from keyfold.ingestion.kafka.message_decoder import MessageDecoder
from keyfold.ingestion.parsing import parse_messages
from tests.keyfold.ingestion.kafka.hostile import AVRO, HOSTILE, KEYS, LONGEST, OTHERS, STREAM, varint

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SETTINGS = KafkaSettings("127.0.0.1:1", {"schema.registry.url": "mock://hostile"})


class Registered:
    """A registry in memory; each schema that was registered has a number, and what was asked of it is counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.client = SchemaRegistryClient.new_client({"url": "mock://hostile"})
        monkeypatch.setattr(SchemaRegistryClient, "new_client", staticmethod(lambda _: self.client))
        self.numbers: dict[str, int] = {}
        self.asked = Counter[int]()
        get = self.client.get_schema

        def counted(number: int) -> Schema:
            self.asked[number] += 1
            return self.schemas[number] if number in self.schemas else get(number)

        self.schemas: dict[int, Schema] = {}
        monkeypatch.setattr(self.client, "get_schema", counted)
        texts = {name: Schema(json.dumps(schema), "AVRO") for name, schema in AVRO.items()}
        for number, (name, schema) in enumerate((texts | OTHERS).items(), 1):
            self.schemas[number], self.numbers[name] = schema, number

    def frame(self, name: str, content: bytes) -> bytes:
        return b"\0" + self.numbers[name].to_bytes(4, "big") + content


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Registered:
    return Registered(monkeypatch)


def mutated(content: bytes, seeded: random.Random) -> bytes:
    """Bytes with a few changed, cut, doubled or put in."""
    changed = bytearray(content)
    for _ in range(seeded.randrange(1, 4)):
        at = seeded.randrange(len(changed) + 1)
        match seeded.randrange(4):
            case 0 if changed:
                changed[at % len(changed)] ^= 1 << seeded.randrange(8)
            case 1:
                del changed[at:]
            case 2:
                changed[at:at] = seeded.randbytes(seeded.randrange(1, 12))
            case _:
                changed[at:at] = changed[at : at + 20] * seeded.randrange(1, 5)
    return bytes(changed)


def valid(schema: Any, count: int) -> list[bytes]:
    """Valid messages of a schema; none if it has none, or no end."""
    try:
        parsed = parse_schema(schema)
        rows = list(generate_many(parsed, count))
    except Exception:
        return []
    contents = []
    for row in rows:
        stream = io.BytesIO()
        try:
            schemaless_writer(stream, parsed, row)
        except Exception:  # noqa: S112 - the generator makes values that the writer refuses
            continue
        contents.append(stream.getvalue())
    return contents


@pytest.fixture
def decoder(registered: Registered) -> MessageDecoder:
    return MessageDecoder(SETTINGS, LONGEST)


def test_any_bytes_under_any_schema_are_an_event_or_a_fault_in_bounded_time(
    registered: Registered, decoder: MessageDecoder
):
    seeded, messages = random.Random(), list[bytes]()
    for name in registered.numbers:
        contents = [*HOSTILE, *(seeded.randbytes(seeded.randrange(40)) for _ in range(60))]
        contents += [mutated(good, seeded) for good in valid(AVRO.get(name), 20) for _ in range(5)]
        contents += [mutated(b'{"f0": "a", "f1": {"b": [1, 2]}}', seeded) for _ in range(20)]
        messages += [registered.frame(name, content) for content in contents]
    messages += [seeded.randbytes(seeded.randrange(60)) for _ in range(500)]
    began = time.monotonic()
    found = list(decoder.decode(messages))
    assert time.monotonic() - began < 120
    assert len(found) == len(messages) > 4_000
    assert all(bool(one.fault) == (one.text is None) for one in found)
    assert not [one.fault for one in found if "its decoder" in one.fault]
    rows = parse_messages(
        STREAM,
        [one.text for one in found],
        np.arange(len(found)),
        NOW,
        faults={at: one.fault for at, one in enumerate(found) if one.fault},
    )
    assert rows.read == rows.accepted.height + len(rows.rejects) == len(messages)
    assert max(registered.asked.values()) == 1


def test_the_same_bytes_are_keys(registered: Registered, decoder: MessageDecoder):
    keys = [registered.frame(name, content) for name in ("JSON", "a text", "a chain") for content in (*HOSTILE, *KEYS)]
    faults: dict[int, str] = {}
    texts = key_texts(keys, list(decoder.decode(keys)), faults)
    assert len(texts) == len(keys)
    raw = pa.array(
        [text.decode("utf-8", "replace") if isinstance(text, bytes) else text for text in texts], pa.string()
    )
    assert raw.null_count == len(faults) > 20
    assert all(reason.startswith("kafka_key: ") for reason in faults.values())
    found = dict(zip(KEYS, texts[len(HOSTILE) : len(HOSTILE) + len(KEYS)], strict=True))
    assert found[b'"ann"'] == b"ann"
    assert found[b'{"a": 1}'] == b'{"a": 1}'
    assert [found[key] for key in (b'"broken', b'"\\ud800"', b'"\xff"')] == [None] * 3


@pytest.mark.parametrize("name", ["a list of itself", "a chain", "a map of itself"])
def test_a_recursive_message_is_read_to_a_depth_and_refused_beyond(
    registered: Registered, decoder: MessageDecoder, name: str
):
    depths = [0, 1, 10, 200, 5_000, 100_000]
    found = list(decoder.decode([registered.frame(name, NESTED[name](depth)) for depth in depths]))
    told = [one.fault.rpartition(": ")[2] for one in found]
    assert told == [""] * 4 + ["nested too deeply"] * 2
    for depth, one in zip(depths, found[:4], strict=False):
        assert (one.text or b"").count(b"f0" if name != "a chain" else b"f1") == depth + 1


NESTED = {
    "a list of itself": lambda depth: b"\x02" * depth + b"\0" * (depth + 1),
    "a chain": lambda depth: b"\x02\x02" * depth + b"\x02\0",
    "a map of itself": lambda depth: b"\x02\x02k" * depth + b"\0" * (depth + 1),
}


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a scale above its precision", b"\2a", "cannot be used: SchemaParseException: decimal scale must be"),
        ("an unknown type", b"\2a", "cannot be used: UnknownType: Elsewhere"),
        ("an import that is missing", b"\2a", "it refers to version 1 of gone, which the registry does not have"),
        ("no JSON", b"\2a", "cannot be used: JSONDecodeError"),
        ("a schema nested deeply", b"\2a", "nested too deeply"),
        ("a chain of types", b"\2a", "nested too deeply"),
        ("Protobuf", b"\xff" * 900_000, "in PROTOBUF, which is not read: Avro and JSON Schema are"),
        ("lists of nothing", varint(2**60), "a list whose elements take no bytes"),
        ("a tree of nothing", b"", "values that take no bytes, and at most 1,000 are read"),
        (
            "no record",
            varint(1) + varint(300_000) + b"\x7f" * 300_000 + b"\0",
            "300,000 bytes, and at most 128 are read",
        ),
        ("a text", varint(2**62) + b"a", "Expected"),
        ("a text", varint(2) + b"\xff\xfe", "UnicodeDecodeError"),
        ("a text", b"\0" * LONGEST, "more than its stream's limit of 1,048,576"),
        ("long names", varint(200_000) + b"\1" * 200_000 + b"\0", "more than its stream's limit of 1,048,576"),
    ],
)
def test_what_cannot_be_read_says_why(
    registered: Registered, decoder: MessageDecoder, name: str, content: bytes, told: str
):
    began = time.monotonic()
    good = registered.frame("a text", varint(3) + b"ann")
    before, wrong, after = decoder.decode([good, registered.frame(name, content), good])
    assert before == after == (b'"ann"', "")
    assert told in wrong.fault
    assert time.monotonic() - began < 30


def test_a_schema_is_asked_for_once_also_one_that_there_is_not(registered: Registered, decoder: MessageDecoder):
    unknown = [b"\0" + number.to_bytes(4, "big") + b"x" for number in range(900, 905)] * 600
    found = list(decoder.decode([*unknown, registered.frame("a text", b"\2a")] * 2))
    assert Counter(one.fault for one in found) == Counter(
        {f"the message names schema {number}, which the registry does not have": 1_200 for number in range(900, 905)}
        | {"": 2}
    )
    assert set(registered.asked.values()) == {1}


def test_decimals_are_exact_and_none_is_rounded_to_the_precision(registered: Registered, decoder: MessageDecoder):
    numbers = [0, 1, -1, 10**9 - 1, 10**12, -(2**1000)]
    contents = [number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True) for number in numbers]
    values = [varint(1) + varint(len(content)) + content + b"\0" for content in contents]
    found = [
        json.loads(one.text or b"0")[0]
        for one in decoder.decode([registered.frame("no record", value) for value in values])
    ]
    assert [Decimal(text) for text in found] == [Decimal(number).scaleb(-2, Context(prec=500)) for number in numbers]


def test_a_message_that_ends_its_decoder_is_found_and_the_others_are_read(registered, decoder, monkeypatch):
    """Whatever a library does to the process: here the work ends it at two messages."""
    monkeypatch.setattr(message_decoder, "decode_avro", ending)
    messages = [registered.frame("a text", varint(1) + bytes([65 + at % 26])) for at in range(3_000)]
    for at in (7, 2_500):
        messages[at] = registered.frame("a text", b"END")
    found = list(decoder.decode(messages))
    assert [at for at, one in enumerate(found) if one.fault] == [7, 2_500]
    assert found[7].fault.endswith("its decoder crashed (SIGSEGV)")
    assert [one.text for one in found if not one.fault] == [
        b'"%c"' % (65 + at % 26) for at in range(3_000) if at not in (7, 2_500)
    ]


def ending(schemas: Any, messages: Any, longest: int, at_once: int) -> Iterator[list[Decoded]]:
    """As `decode_avro`, in the child."""
    for _, content in messages:
        if content == b"END":
            os.kill(os.getpid(), signal.SIGSEGV)
        yield from decode_avro(schemas, [(messages[0][0], content)], longest, at_once)
