"""Read JSON lines: whole chunks with Arrow's reader, faulty lines with Python's json.

Arrow's reader stops at the first bad line and does not say which one it was. So a chunk that fails is cut into parts until the
bad line is among a few, which Python's json reads one by one and gives the reason.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.json as pj
from pyarrow import types

from keyfold.ingestion.parsing.casting import SHOWN, named
from keyfold.ingestion.parsing.json_texts import JsonTexts
from keyfold.ingestion.parsing.rows import Reject, Rows
from keyfold.stream.raw_paths import TEXT_OF, is_each, path_of
from keyfold.whole_numbers import whole_number

_PARTS = 16
_FEW = 32
_BLANK = b" \t\r\n"
_NOT_JSON = "not valid JSON"
_DIGITS = 300
"""Integers with more digits are read as floats. All with fewer are in the range of floats."""

_MAX_DEPTH = 500
"""Maximum nesting that Python's reader is used for, since its own limit depends on the call stack."""

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?')


def read_json(schema: pa.Schema, text: Iterable[bytes], missing: tuple[str, ...] = ()) -> Iterator[Rows]:
    """Read chunks of JSON objects, one per line. The texts in `missing` mean no value."""
    line = 1
    for chunk in text:
        ended = chunk.count(b"\n")
        if not chunk.strip(_BLANK):
            line += ended
            continue
        count = ended + (not chunk.endswith(b"\n"))
        table = read_objects(schema, chunk, count)
        if table is not None:
            yield Rows(table, np.arange(line, line + count, dtype=np.int64), _RawLine(chunk))
        else:
            values = chunk.split(b"\n")
            yield read_values(schema, values, np.arange(line, line + len(values), dtype=np.int64), missing)
        line += ended


def read_objects(schema: pa.Schema, text: bytes, count: int) -> pa.Table | None:
    """Read `count` objects, one per line, with Arrow; None if they must be read one by one."""
    table = _read(_as_text(schema), text, count) if _one_object_a_line(text, count) else None
    return None if table is None else _with_texts(schema, table, lambda: text)


def read_values(schema: pa.Schema, values: Sequence[bytes], lines: np.ndarray, missing: tuple[str, ...] = ()) -> Rows:
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
            row, reason, elements = _read_one(schema, value, missing)
            if reason is None:
                good.append(row)
                kept.append(index)
                broken.update({(int(lines[where[index]]), place): why for place, why in elements.items()})
            elif reason.startswith(_NOT_JSON) and (table := _read_alone(text_schema, value)) is not None:
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
    table = _with_texts(schema, table, lambda: b"\n".join(there[index] for index in kept))
    return Rows(table, lines[sources], lambda position: line_text(values[sources[position]]), rejects, broken=broken)


class _RawLine:
    """The raw lines of a chunk, split when the first one is requested."""

    def __init__(self, chunk: bytes) -> None:
        self._chunk = chunk
        self._lines: list[bytes] | None = None

    def __call__(self, position: int) -> str:
        if self._lines is None:
            self._lines = self._chunk.split(b"\n")
        return line_text(self._lines[position])


def line_text(value: bytes) -> str:
    """Return a line as text for quarantine."""
    return value.removesuffix(b"\r").decode("utf-8", "replace")


def _as_text(schema: pa.Schema) -> pa.Schema:
    """Return the schema for reading: times are text in JSON, and columns kept as JSON text are left out."""
    return pa.schema([pa.field(one.name, _text_type(one.type)) for one in schema if not one.name.endswith(TEXT_OF)])


def _text_type(kind: pa.DataType) -> pa.DataType:
    if types.is_struct(kind):
        return pa.struct([pa.field(one.name, _text_type(one.type)) for one in kind])
    if types.is_list(kind):
        return pa.list_(_text_type(kind.value_type))
    return pa.string() if _is_text(kind) else kind


def _with_texts(schema: pa.Schema, table: pa.Table, text: Callable[[], bytes]) -> pa.Table:
    """Add the columns that are kept as JSON text, from the lines of the table."""
    names = [name for name in schema.names if name.endswith(TEXT_OF)]
    if not names or not table.num_rows:
        return table
    texts = JsonTexts(text())
    for name in names:
        inside = name.removesuffix(TEXT_OF)
        table = table.append_column(name, texts.at(path_of(inside) if inside else ()))
    return table


def _is_text(target: pa.DataType) -> bool:
    return types.is_string(target) or types.is_timestamp(target)


def _one_object_a_line(chunk: bytes, count: int) -> bool:
    """Whether each of `count` lines begins and ends with a brace.

    If Arrow then reads `count` objects, each line is one object, since no object can continue over a closing brace at the end
    of a line and an opening one at the start of the next. The check also keeps Arrow from a bare null, which crashes it.
    """
    return chunk.startswith(b"{") and chunk.endswith((b"}\n", b"}")) and chunk.count(b"}\n{") == count - 1


def _read(text_schema: pa.Schema, text: bytes, count: int) -> pa.Table | None:
    """Read exactly `count` objects with Arrow; None if one of them is faulty."""
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


def _read_alone(text_schema: pa.Schema, value: bytes) -> pa.Table | None:
    """Read one line with Arrow, which accepts what Python's json does not: any depth, any number of digits, and Inf.

    So a line is accepted or rejected independently of the lines around it.
    """
    return _read(text_schema, value, 1) if _is_braced(value) else None


def _is_braced(value: bytes) -> bool:
    return value.startswith(b"{") and value.endswith(b"}")


class _Real(float):
    """A float with its original text, which is exact."""

    __slots__ = ("text",)

    def __new__(cls, text: str) -> Self:
        number = super().__new__(cls, text)
        number.text = text
        return number


def _whole(text: str) -> int | _Real:
    # -0 stays a float, since integers have no negative zero.
    return int(text) if len(text) <= _DIGITS and text != "-0" else _Real(text)


_DECODER = json.JSONDecoder(parse_float=_Real, parse_int=_whole)


class _WrongError(Exception):
    """A value does not fit its column's type; the message is the reason."""


def _read_one(
    schema: pa.Schema, value: bytes, missing: tuple[str, ...]
) -> tuple[dict[str, Any], str | None, Mapping[int, str]]:
    """Return a line's row, or why it is rejected; and by index, why elements of the exploded list are rejected."""
    if _depth(value) > _MAX_DEPTH:
        return {}, f"{_NOT_JSON}: nested too deeply", {}
    try:
        found = _DECODER.decode(value.decode("utf-8-sig"))
    except ValueError as error:
        return {}, f"{_NOT_JSON}: {error}", {}
    if not isinstance(found, dict):
        return {}, f"not a JSON object: {_short(found)}", {}
    elements: dict[int, str] = {}
    try:
        return _fields(found, schema, missing, "", elements), None, elements
    except _WrongError as wrong:
        return {}, str(wrong), {}


def _fields(
    found: dict[str, Any], fields: Iterable[pa.Field], missing: tuple[str, ...], above: str, elements: dict[int, str]
) -> dict[str, Any]:
    """Read the schema's fields of an object.

    Raises:
        _WrongError: a field does not fit its type.
    """
    row: dict[str, Any] = {}
    for field in fields:
        given, name = found.get(field.name), f"{above}{field.name}"
        if isinstance(given, list) and is_each(field):
            row[field.name] = _elements(given, field.type.value_type, missing, name, elements)
        else:
            row[field.name] = _value(given, field.type, missing, name, elements)
    return row


def _elements(
    given: list[Any], kind: pa.DataType, missing: tuple[str, ...], name: str, elements: dict[int, str]
) -> list[Any]:
    """Read a list's elements; NULL for those that do not fit their type, with the reason in `elements`."""
    read: list[Any] = []
    for place, one in enumerate(given):
        try:
            read.append(_value(one, kind, missing, f"{name}[]", elements))
        except _WrongError as wrong:
            read.append(None)
            elements[place] = str(wrong)
    return read


def _value(given: Any, kind: pa.DataType, missing: tuple[str, ...], name: str, elements: dict[int, str]) -> Any:
    if given is None or given != given:  # NULL or NaN  # noqa: PLR0124
        return None
    if types.is_struct(kind):
        if not isinstance(given, dict):
            raise _WrongError(f"{name} is not an object: {_short(given)}")
        return _fields(given, kind, missing, f"{name}.", elements)
    if types.is_list(kind) and not types.is_string(kind.value_type):
        if not isinstance(given, list):
            raise _WrongError(f"{name} is not a list: {_short(given)}")
        return [_value(one, kind.value_type, missing, f"{name}[{place}]", elements) for place, one in enumerate(given)]
    # Before the type check, since "NA" in a column of numbers is a missing value, not a wrong one. In a column of text it
    # becomes NULL later, as for lines that Arrow reads.
    if isinstance(given, str) and not _is_text(kind) and given.strip() in missing:
        return None
    typed = _typed(given, kind)
    if typed is None:
        raise _WrongError(f"{name} is not {named(kind)}: {_short(given)}")
    return typed


def _depth(value: bytes) -> int:
    """Return the nesting depth of arrays and objects; if they are few, an upper bound: their number."""
    count = value.count(b"[") + value.count(b"{")
    if count <= _MAX_DEPTH:
        return count
    signs = np.frombuffer(_STRING.sub(b"", value), np.uint8)
    steps = np.isin(signs, (ord("["), ord("{"))).astype(np.int32) - np.isin(signs, (ord("]"), ord("}")))
    return int(np.cumsum(steps).max(initial=0))


def _typed(given: Any, target: pa.DataType) -> Any:
    """Convert a value to the column's type; None if it does not fit. The results are the same as Arrow's."""
    if types.is_list(target):
        values = given if isinstance(given, list) else [given]
        return (
            values
            if all(value is None or (isinstance(value, str) and _is_unicode(value)) for value in values)
            else None
        )
    if _is_text(target):
        fits = isinstance(given, str) and _is_unicode(given)
    elif types.is_boolean(target):
        fits = isinstance(given, bool)
    else:
        return _typed_number(given, target)
    return given if fits else None


def _typed_number(given: Any, target: pa.DataType) -> int | float | None:
    if isinstance(given, bool) or not isinstance(given, int | float):
        return None
    if types.is_floating(target):
        return float(given)  # the cast rejects non-finite values later, as for lines that Arrow reads
    # 2.0 is accepted as 2: pandas writes integers so in columns with missing values. 2.5 stays wrong.
    number = whole_number(given.text) if isinstance(given, _Real) else given
    if number is None or isinstance(number, float):
        return None
    # Out of the type's range is a wrong value, too.
    least = -(1 << target.bit_width - 1) if types.is_signed_integer(target) else 0
    return number if 0 <= number - least < 1 << target.bit_width else None


def _is_unicode(text: str) -> bool:
    """False if it has half of a surrogate pair, which JSON can escape but UTF-8 cannot hold."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _short(given: Any) -> str:
    if isinstance(given, float):
        text = given.text if isinstance(given, _Real) else repr(given)
    else:
        text = given if isinstance(given, str) else json.dumps(given)
    return text.encode("utf-8", "backslashreplace").decode()[:SHOWN]
