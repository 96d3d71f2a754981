"""Read JSON lines, and Kafka messages of JSON: together with Arrow's reader, and what it does not take with Python's json.

Arrow's reader was the fastest sound one: with the casts 0.9 to 1.1 µs a ride point, where DuckDB with texts took 1.1. Polars took 0.5 to 0.8
without the casts, but takes the first of two equal names. Arrow's is strict, and refuses lines together (`dividing`). Python's json reads the few that are left, one by one.

Whatever reads it, a value is a text, or has its column's type already: `5` for a column of text is the text "5", and "5" for a
number is read by `casting`. Arrow reads a kind of value for each column, so a few lines at the beginning are looked at for it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types

from keyfold.ingestion.parsing.dividing import divide
from keyfold.ingestion.parsing.json_texts import text_at
from keyfold.ingestion.parsing.json_values import (
    NOT_JSON,
    MisfitError,
    NotAnObjectError,
    Number,
    read_object,
    texts_of,
)
from keyfold.ingestion.parsing.rows import Lines, RawLines, Reject, Rows
from keyfold.ingestion.parsing.text import line_ends
from keyfold.stream.source import TEXT_OF, path_of

_SAMPLES = 32
"""Lines that are looked at for the kinds of values."""
_BLANK = b" \t\r\n"


def read_json(
    schema: pa.Schema, text: Iterable[bytes | bytearray], missing: Sequence[str]
) -> Iterator[Callable[[], list[Rows]]]:
    """Yield functions that read the chunks of a text, one object a line. Each can be called in another thread.

    Args:
        schema: the raw columns.
        text: chunks of whole lines.
        missing: texts that mean a missing value.
    """
    line = 1
    for chunk in text:
        ended = line_ends(chunk)
        # The last line of a file may lack its newline.
        count = ended + (not chunk.endswith(b"\n"))
        yield partial(read_objects, schema, chunk, np.arange(line, line + count, dtype=np.int64), missing)
        line += ended


def read_objects(schema: pa.Schema, text: bytes | bytearray, lines: Lines, missing: Sequence[str]) -> list[Rows]:
    """Read the objects of lines, without blank ones: those that Arrow takes, and those that it does not.

    Args:
        schema: the raw columns.
        text: the lines.
        lines: their numbers.
        missing: texts that mean a missing value.
    """
    # `isspace` stops at the first sign, where `strip` alone would copy the text.
    if not len(lines) or (text.isspace() and not text.strip(_BLANK)):
        return []
    reader = _Reader(schema, text)
    is_plain = _has_an_object_a_line(text, len(lines)) and not reader.texts
    table = reader.read(text, len(lines)) if is_plain else None
    if table is not None:
        return [Rows(table, lines, RawLines(text))]
    values = [value.strip(_BLANK) for value in text.split(b"\n")[: len(lines)]]
    raw = RawLines(text)
    positions = np.array([position for position, value in enumerate(values) if value], dtype=np.int64)
    objects = [values[position] for position in positions]
    divided = divide(len(objects), lambda start, stop: reader.read_lines(objects[start:stop]))
    parts: list[Rows] = []
    if divided.table is not None:
        parts.append(_with_texts(reader, divided.table, values, lines, positions[divided.taken], raw, {}, []))
    if len(divided.left):
        parts.append(_read_singly(reader, values, lines, positions[divided.left], raw, missing))
    return parts


class _Reader:
    """Reads lines by Arrow, with the kinds of values that the first lines of a text have."""

    def __init__(self, schema: pa.Schema, text: bytes | bytearray) -> None:
        self.texts = [name for name in schema.names if name.endswith(TEXT_OF)]
        """The columns that are kept as JSON text: Arrow does not read them."""
        self.schema = pa.schema([field for field in schema if not field.name.endswith(TEXT_OF)])
        samples = list(_objects(text))
        read = [(field, _as_read(field.type, [sample.get(field.name) for sample in samples])) for field in self.schema]
        self._read = pa.schema([pa.field(field.name, kind) for field, kind in read])
        self._given = pa.schema([pa.field(field.name, _as_given(kind, field.type)) for field, kind in read])

    def read(self, text: bytes | bytearray, count: int) -> pa.Table | None:
        """Read exactly `count` objects; None if one of them is faulty, or has another kind of value than the first ones."""
        import pyarrow.json as pj  # noqa: PLC0415 - takes 30 ms

        try:
            table = pj.read_json(
                pa.BufferReader(text),
                # One block and no threads: the text is already cut into chunks, and Spark starts one worker per core.
                read_options=pj.ReadOptions(use_threads=False, block_size=len(text) + 1),
                parse_options=pj.ParseOptions(explicit_schema=self._read, unexpected_field_behavior="ignore"),
            )
        except pa.ArrowInvalid:
            return None
        # A number that is too large for a float is infinite for Arrow; its text tells more.
        if table.num_rows != count or any(map(_has_infinite, table.columns)):
            return None
        return table if self._read == self._given else table.cast(self._given)

    def read_lines(self, lines: Sequence[bytes | bytearray]) -> pa.Table | None:
        """Read lines without blanks around them, as `read` does."""
        is_object = all(line.startswith(b"{") and line.endswith(b"}") for line in lines)
        return self.read(b"\n".join(lines), len(lines)) if is_object else None


def _objects(text: bytes | bytearray) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of the first lines."""
    start = 0
    for _ in range(_SAMPLES):
        end = text.find(b"\n", start)
        with suppress(NotAnObjectError):
            yield read_object(text[start : end if end >= 0 else len(text)])
        start = end + 1
        if end < 0:
            return


def _as_read(kind: pa.DataType, values: Sequence[Any]) -> pa.DataType:
    """Return the type that Arrow reads for a column, given some of its values.

    It makes no difference to the result: a value of another kind is read singly.
    """
    if types.is_struct(kind):
        inner = [[value.get(field.name) for value in values if isinstance(value, Mapping)] for field in kind]
        return pa.struct(
            [pa.field(field.name, _as_read(field.type, some)) for field, some in zip(kind, inner, strict=True)]
        )
    if types.is_list(kind):
        return pa.list_(
            _as_read(kind.value_type, [inner for value in values if isinstance(value, list) for inner in value])
        )
    kinds = {type(value) for value in values if value is not None}
    if kinds == {str} or types.is_timestamp(kind) or types.is_date(kind):
        return pa.string()
    if types.is_string(kind):
        # Unsigned, since a text of -0 is no 0.
        return pa.uint64() if kinds == {Number} and all(value.isdigit() for value in values if value) else kind
    # Rounded twice, as a text is.
    return pa.float64() if types.is_floating(kind) else kind


def _as_given(read: pa.DataType, kind: pa.DataType) -> pa.DataType:
    """Return the type of a column in the result: whole numbers for a column of text are texts."""
    if types.is_struct(read):
        return pa.struct([pa.field(field.name, _as_given(field.type, kind.field(field.name).type)) for field in read])
    if types.is_list(read):
        return pa.list_(_as_given(read.value_type, kind.value_type))
    return kind if types.is_string(kind) else read


def _has_infinite(column: pa.ChunkedArray | pa.Array) -> bool:
    if types.is_struct(column.type):
        return any(map(_has_infinite, column.flatten()))
    if types.is_list(column.type):
        return any(_has_infinite(chunk.flatten()) for chunk in getattr(column, "chunks", [column]))
    if not types.is_floating(column.type):
        return False
    import pyarrow.compute as pc  # noqa: PLC0415 - takes 50 ms

    return bool(pc.call_function("any", [pc.call_function("is_inf", [column])]).as_py())


def _has_an_object_a_line(text: bytes | bytearray, count: int) -> bool:
    """Whether each of `count` lines begins and ends with a brace.

    If Arrow then reads `count` objects, each line is one object, since no object can continue over a closing brace at the end
    of a line and an opening one at the start of the next. The check also keeps Arrow from a bare null, which crashes it.
    """
    if not (text.startswith(b"{") and text.endswith((b"}\n", b"}"))):
        return False
    signs = np.frombuffer(text, np.uint8)
    before = np.flatnonzero(signs[1:-1] == ord("\n"))
    return np.count_nonzero((signs[before] == ord("}")) & (signs[before + 2] == ord("{"))) == count - 1


def _read_singly(
    reader: _Reader,
    values: Sequence[bytes | bytearray],
    lines: Lines,
    positions: Lines,
    raw: RawLines,
    missing: Sequence[str],
) -> Rows:
    """Read lines one by one. Those that are no objects, or have values of another form than the stream's, are rejected."""
    rows: list[dict[str, Any]] = []
    good: list[int] = []
    rejects: list[Reject] = []
    broken: dict[tuple[int, int], str] = {}
    for position in positions.tolist():
        elements: dict[int, str] = {}
        try:
            rows.append(texts_of(reader.schema, read_object(values[position]), missing, elements))
        except (NotAnObjectError, MisfitError) as error:
            rejects.append(Reject(raw(position), int(lines[position]), str(error)))
            continue
        good.append(position)
        broken.update({(int(lines[position]), place): reason for place, reason in elements.items()})
    table = pa.Table.from_pylist(rows, schema=pa.schema([(field.name, _texts(field.type)) for field in reader.schema]))
    return _with_texts(reader, table, values, lines, np.array(good, np.int64), raw, broken, rejects)


def _texts(kind: pa.DataType) -> pa.DataType:
    if types.is_struct(kind):
        return pa.struct([pa.field(field.name, _texts(field.type)) for field in kind])
    return pa.list_(_texts(kind.value_type)) if types.is_list(kind) else pa.string()


def _with_texts(
    reader: _Reader,
    table: pa.Table,
    values: Sequence[bytes | bytearray],
    lines: Lines,
    positions: Lines,
    raw: RawLines,
    broken: Mapping[tuple[int, int], str],
    rejects: list[Reject],
) -> Rows:
    """Return rows with the columns that are kept as JSON text."""
    good = np.ones(len(positions), dtype=bool)
    for name in reader.texts:
        path, texts = path_of(name.removesuffix(TEXT_OF)) if name != TEXT_OF else (), list[str | None]()
        for row, position in enumerate(positions.tolist()):
            try:
                texts.append(text_at(values[position].decode(), path))
            except ValueError as error:
                texts.append(None)
                if good[row]:
                    rejects.append(Reject(raw(position), int(lines[position]), f"{NOT_JSON}: {error}"))
                good[row] = False
        table = table.append_column(name, pa.array(texts, pa.string()))
    if not good.all():
        table, positions = table.filter(pa.array(good)), positions[good]
    return Rows(table, lines[positions], lambda row: raw(int(positions[row])), rejects, broken=broken)
