"""Read JSON lines: whole chunks with Arrow's reader, faulty lines with Python's json.

Arrow's reader stops at the first bad line and does not say which one it was. So a chunk that fails is cut into parts until the
bad line is among a few, which Python's json reads one by one and gives the reason.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types

from keyfold.ingestion.parsing.json_texts import text_at
from keyfold.ingestion.parsing.json_values import NOT_JSON, is_deep, is_text, read_object
from keyfold.ingestion.parsing.rows import RawLines, Reject, Rows, line_text
from keyfold.ingestion.parsing.text import line_ends
from keyfold.stream.source import TEXT_OF, path_of

_PARTS = 16
"""Parts that lines are cut into, if Arrow cannot read them together."""
_FEW = 32
"""Lines that are read one by one, if Arrow cannot read them together."""
_BLANK = b" \t\r\n"


def read_json(schema: pa.Schema, text: Iterable[bytes | bytearray], missing: tuple[str, ...] = ()) -> Iterator[Rows]:
    """Read chunks of JSON objects, one per line. The texts in `missing` mean no value."""
    line = 1
    for chunk in text:
        ended = line_ends(chunk)
        # `isspace` stops at the first sign, where `strip` alone would copy the chunk.
        if chunk.isspace() and not chunk.strip(_BLANK):
            line += ended
            continue
        # The last line of a file may lack its newline.
        count = ended + (not chunk.endswith(b"\n"))
        table = read_objects(schema, chunk, count)
        if table is not None:
            yield Rows(table, np.arange(line, line + count, dtype=np.int64), RawLines(chunk))
        else:
            values = chunk.split(b"\n")
            yield read_values(schema, values, np.arange(line, line + len(values), dtype=np.int64), missing)
        line += ended


def read_objects(schema: pa.Schema, text: bytes | bytearray, count: int) -> pa.Table | None:
    """Read `count` objects, one per line, with Arrow; None if they must be read one by one."""
    table = _read(_as_text(schema), text, count) if _one_object_a_line(text, count) else None
    if table is None or not _text_names(schema) or not count:
        return table
    table, unread = _with_texts(schema, table, text.removesuffix(b"\n").split(b"\n"))
    return None if unread else table


def read_values(
    schema: pa.Schema, values: Sequence[bytes | bytearray], lines: np.ndarray, missing: tuple[str, ...] = ()
) -> Rows:
    """Read separate values. Those that are not objects with the schema's types are rejected."""
    stripped = [value.strip(_BLANK) for value in values]
    where = np.array([index for index, value in enumerate(stripped) if value], dtype=np.int64)
    there = [stripped[index] for index in where]
    text_schema = _as_text(schema)
    tables: list[pa.Table] = []
    kept: list[int] = []
    rejects: list[Reject] = []
    broken: dict[tuple[int, int], str] = {}

    # Divide and conquer: Arrow reads good parts as a whole, and bad parts are cut until few lines are left.
    def read(start: int, stop: int) -> None:
        part = there[start:stop]
        table = None
        if all(map(_is_braced, part)):
            table = _read(text_schema, b"\n".join(part), len(part))
        if table is not None:
            tables.append(table)
            kept.extend(range(start, stop))
        elif stop - start > _FEW:
            step = max(_FEW, -(-(stop - start) // _PARTS))
            for begin in range(start, stop, step):
                read(begin, min(begin + step, stop))
        else:
            read_singly(start, stop)

    def read_singly(start: int, stop: int) -> None:
        good: list[dict[str, Any]] = []
        alone: list[tuple[int, pa.Table]] = []
        for index in range(start, stop):
            value = there[index]
            row, reason, elements = read_object(schema, value, missing)
            if reason is None:
                good.append(row)
                kept.append(index)
                broken.update({(int(lines[where[index]]), place): why for place, why in elements.items()})
            elif reason.startswith(NOT_JSON) and (table := _read_alone(text_schema, value)) is not None:
                alone.append((index, table))
            else:
                source = where[index]
                rejects.append(Reject(line_text(values[source]), int(lines[source]), reason))
        tables.append(pa.Table.from_pylist(good, schema=text_schema))
        tables.extend(table for _, table in alone)
        kept.extend(index for index, _ in alone)

    if there:
        read(0, len(there))
    sources = where[kept]
    table = pa.concat_tables(tables) if tables else text_schema.empty_table()
    if _text_names(schema):
        table, unread = _with_texts(schema, table, [there[index] for index in kept])
        for row, why in unread.items():
            rejects.append(Reject(line_text(values[sources[row]]), int(lines[sources[row]]), f"{NOT_JSON}: {why}"))
        good = np.setdiff1d(np.arange(len(kept)), list(unread))
        table, sources = table.take(pa.array(good)), sources[good]
    return Rows(table, lines[sources], lambda position: line_text(values[sources[position]]), rejects, broken=broken)


def _as_text(schema: pa.Schema) -> pa.Schema:
    """Return the schema for reading: times are text in JSON, and columns kept as JSON text are left out."""
    return pa.schema([pa.field(one.name, _text_type(one.type)) for one in schema if not one.name.endswith(TEXT_OF)])


def _text_type(kind: pa.DataType) -> pa.DataType:
    if types.is_struct(kind):
        return pa.struct([pa.field(one.name, _text_type(one.type)) for one in kind])
    if types.is_list(kind):
        return pa.list_(_text_type(kind.value_type))
    return pa.string() if is_text(kind) else kind


def _text_names(schema: pa.Schema) -> list[str]:
    return [name for name in schema.names if name.endswith(TEXT_OF)]


def _with_texts(
    schema: pa.Schema, table: pa.Table, lines: Sequence[bytes | bytearray]
) -> tuple[pa.Table, dict[int, str]]:
    """Add the columns that are kept as JSON text, from the lines of the table; and say why, by row, lines have none."""
    unread: dict[int, str] = {}
    for name in _text_names(schema):
        inside, texts = name.removesuffix(TEXT_OF), list[str | None]()
        for row, line in enumerate(lines):
            if is_deep(line):
                texts.append(None)
                unread[row] = "nested too deeply"
                continue
            try:
                texts.append(text_at(line.decode(), path_of(inside) if inside else ()))
            except ValueError as error:
                texts.append(None)
                unread[row] = str(error)
        table = table.append_column(name, pa.array(texts, pa.string()))
    return table, unread


def _one_object_a_line(chunk: bytes | bytearray, count: int) -> bool:
    """Whether each of `count` lines begins and ends with a brace.

    If Arrow then reads `count` objects, each line is one object, since no object can continue over a closing brace at the end
    of a line and an opening one at the start of the next. The check also keeps Arrow from a bare null, which crashes it.
    """
    if not (chunk.startswith(b"{") and chunk.endswith((b"}\n", b"}"))):
        return False
    signs = np.frombuffer(chunk, np.uint8)
    before = np.flatnonzero(signs[1:-1] == ord("\n"))
    return np.count_nonzero((signs[before] == ord("}")) & (signs[before + 2] == ord("{"))) == count - 1


def _read(text_schema: pa.Schema, text: bytes | bytearray, count: int) -> pa.Table | None:
    """Read exactly `count` objects with Arrow; None if one of them is faulty."""
    import pyarrow.json as pj  # noqa: PLC0415 - takes 30 ms

    try:
        table = pj.read_json(
            pa.BufferReader(text),
            # One block and no threads: the text is already cut into chunks, and Spark starts one worker per core.
            read_options=pj.ReadOptions(use_threads=False, block_size=len(text) + 1),
            parse_options=pj.ParseOptions(explicit_schema=text_schema, unexpected_field_behavior="ignore"),
        )
    except pa.ArrowInvalid:
        return None
    return table if table.num_rows == count else None


def _read_alone(text_schema: pa.Schema, value: bytes | bytearray) -> pa.Table | None:
    """Read one line with Arrow, which accepts what Python's json does not: any depth, any number of digits, and Inf.

    So a line is accepted or rejected independently of the lines around it.
    """
    return _read(text_schema, value, 1) if _is_braced(value) else None


def _is_braced(value: bytes | bytearray) -> bool:
    return value.startswith(b"{") and value.endswith(b"}")
