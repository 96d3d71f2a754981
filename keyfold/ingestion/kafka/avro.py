"""Decode messages of Avro into JSON's text, in a child process: bytes that fit no schema must not end the process that ingests.

A few bytes may stand for values without end. So a schema is refused if its values take no bytes, or if it is nested too deeply.
Messages of a recursive schema are decoded by fastavro's reader in plain Python, which is slower, and which stops at a depth
where the compiled one overflows the stack.
"""

import base64
import io
import json
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Context, Decimal
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from keyfold.errors import first_line
from keyfold.ingestion.kafka.avro_shapes import DEEPEST, Shapes
from keyfold.ingestion.kafka.decoded import Decoded, fault, too_long
from keyfold.lazy_names import from_extra

if TYPE_CHECKING:
    import fastavro
    from fastavro import _read_py
    from fastavro.io.binary_decoder import BinaryDecoder
    from fastavro.read import LOGICAL_READERS
else:
    (fastavro,) = from_extra("registry", "fastavro")
    (_read_py,) = from_extra("registry", "fastavro._read_py")
    (BinaryDecoder,) = from_extra("registry", "fastavro.io.binary_decoder", "BinaryDecoder")
    (LOGICAL_READERS,) = from_extra("registry", "fastavro.read", "LOGICAL_READERS")

_FRAMES = 7
"""Most of Python's calls for a level of nesting."""

_TOO_DEEP = "nested too deeply"

_LONGEST_DECIMAL = 128
"""Most bytes of a decimal: 307 digits. To write more of them as text takes the square of their number."""

_LONGEST_VARINT = 10
"""Most bytes of a whole number, which has 64 bits."""

_PIECE = 1 << 20
"""Bytes of messages, before and after, that are answered together."""


@dataclass(frozen=True)
class AvroSchema:
    """A schema, and those that it refers to, in the order in which they are parsed."""

    text: str
    references: tuple[str, ...] = ()


def decode_avro(
    schemas: Mapping[int, AvroSchema], messages: Sequence[tuple[int, bytes]], longest: int, at_once: int
) -> Iterator[list[Decoded]]:
    """Decode messages, and yield the results of some of them at a time, in order.

    Args:
        schemas: the schemas, by number.
        messages: for each the number of its schema, and its content.
        longest: most bytes of a decoded message.
        at_once: most messages of which the results are yielded together.
    """
    answers: list[Decoded] = []
    size = 0
    for number, content in messages:
        answer = _decoded(schemas[number], number, content, longest)
        answers.append(answer)
        size += len(content) + len(answer.text or b"")
        if size >= _PIECE or len(answers) >= at_once:
            yield answers
            answers, size = [], 0
    if answers:
        yield answers


def _decoded(schema: AvroSchema, number: int, content: bytes, longest: int) -> Decoded:
    read = _reader(schema)
    if isinstance(read, str):
        return fault(f"the message names schema {number}, which cannot be used: {read}")
    try:
        text = _text_of(read, content)
    except RecursionError:
        return fault(f"the message cannot be decoded by schema {number}: {_TOO_DEEP}")
    except MemoryError:
        return fault(f"the message cannot be decoded by schema {number}: its values take too much memory")
    # The library raises errors of many kinds for bytes that are not of the schema.
    except Exception as error:
        return fault(f"the message cannot be decoded by schema {number}: {_said(error)}")
    return fault(too_long(len(text), longest)) if len(text) > longest else Decoded(text)


def _text_of(read: "_Read", content: bytes) -> bytes:
    stream = io.BytesIO(content)
    value = read(stream)
    if left := len(content) - stream.tell():
        raise ValueError(f"{left} bytes are left after its last field")
    return json.dumps(value, default=_as_json, allow_nan=False, ensure_ascii=False).encode()


def _said(error: Exception) -> str:
    """Return what an error says, without an object's address: the same for each try."""
    return f"{type(error).__name__}: {first_line(error).partition(' at 0x')[0]}"


_Read = Callable[[io.BytesIO], Any]
_WHOLE = "KeyfoldValue"


@lru_cache(maxsize=256)
def _reader(schema: AvroSchema) -> _Read | str:
    """Return the function that reads a value of a schema, or why there is none."""
    _use_own_decimals()
    named: dict[str, Any] = {}
    try:
        for text in schema.references:
            fastavro.parse_schema(json.loads(text), named_schemas=named)
        # As the only field of a record, which takes no bytes: fastavro would parse a union again for each value.
        field = {"name": _WHOLE, "type": json.loads(schema.text)}
        parsed = fastavro.parse_schema({"type": "record", "name": _WHOLE, "fields": [field]}, named_schemas=named)
        shapes = Shapes(named)
        depth = shapes.of(parsed).depth
    except RecursionError:
        return _TOO_DEEP
    except Exception as error:
        return _said(error)
    if not shapes.are_recursive and depth > DEEPEST:
        return _TOO_DEEP

    def read(stream: io.BytesIO) -> Any:
        record: Any
        if not shapes.are_recursive:
            record = fastavro.schemaless_reader(stream, parsed, None)
        else:
            with _frames(DEEPEST * _FRAMES):
                record = _read_py.read_data(_bounded_decoder()(stream), parsed, {"writer": named, "reader": {}})
        return record[_WHOLE]

    return read


@contextmanager
def _frames(most: int) -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(most)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


@cache
def _bounded_decoder() -> type[BinaryDecoder]:
    class Bounded(BinaryDecoder):
        """A reader of numbers that ends: fastavro's own takes the square of a number's length."""

        def read_long(self) -> int:
            value = 0
            for at in range(_LONGEST_VARINT):
                byte = self.fo.read(1)
                if not byte:
                    raise EOFError("the message ends within a number")
                value |= (byte[0] & 0x7F) << 7 * at
                if byte[0] < 0x80:
                    return (value >> 1) ^ -(value & 1)
            raise ValueError("a whole number has more than 64 bits")

        read_int = read_long

    return Bounded


@cache
def _use_own_decimals() -> None:
    """Let fastavro read decimals exactly, whatever their length: its own reader rounds to the schema's precision."""
    LOGICAL_READERS["bytes-decimal"] = LOGICAL_READERS["fixed-decimal"] = _decimal


def _decimal(content: bytes, schema: Any, _: object = None) -> Decimal:
    if len(content) > _LONGEST_DECIMAL:
        raise ValueError(f"a decimal has {len(content):,} bytes, and at most {_LONGEST_DECIMAL} are read")
    number = Decimal(int.from_bytes(content, "big", signed=True))
    return number.scaleb(-schema.get("scale", 0), Context(prec=_LONGEST_DECIMAL * 3))


def _as_json(value: Any) -> Any:
    """Return a value that JSON does not have as text: times in ISO 8601, decimals in full, bytes in base64."""
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal | uuid.UUID):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} has no form in JSON")
