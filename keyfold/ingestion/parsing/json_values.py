"""Read one JSON object with Python's json into texts, and say what is wrong with a line that has none, or another form than its stream's.

It is slow, and used for the few lines that Arrow's reader does not take (`json_lines`). Numbers keep their text: the declared type reads
it (`casting`), as it reads a field of CSV.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types

from keyfold.ingestion.parsing.casting import SHOWN, named
from keyfold.stream.source import is_each

NOT_JSON = "not valid JSON"
"""The beginning of the reason for a value that is no JSON."""

_MAX_DEPTH = 400
"""Nesting that is read. What is nested more deeply is no column, and Python's reader is limited by the call stack."""

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?')
_NUMBER_OF_ARROW = re.compile(rb'"(?:[^"\\]|\\.)*+"|-?(?:Inf|NaN)\b')
"""Strings, and the spellings of floats that Arrow's reader takes and Python's does not."""


class NotAnObjectError(ValueError):
    """A line is no JSON object; the message is the reason."""


class MisfitError(Exception):
    """A value has not the form that its column needs; the message is the reason."""


class Number(str):
    """A number, as it is written."""

    __slots__ = ()


class _Object(dict[str, Any]):
    """An object, and the names that it has twice."""

    twice: frozenset[str] = frozenset()


def read_object(line: bytes | bytearray) -> Mapping[str, Any]:
    """Return a line's object, whose numbers are texts.

    Raises:
        NotAnObjectError: it has none.
    """
    try:
        content = _DECODER.decode(_readable(line).decode("utf-8-sig"))
    except ValueError as error:
        raise NotAnObjectError(f"{NOT_JSON}: {error}") from None
    if not isinstance(content, _Object):
        raise NotAnObjectError(f"not a JSON object: {_short(content)}")
    return content


def texts_of(
    fields: Iterable[pa.Field], values: Any, missing: Sequence[str], broken: dict[int, str], above: str = ""
) -> dict[str, Any]:
    """Return an object's values of these fields, with texts in place of numbers and truth values, and NULL where it has none.

    Args:
        fields: the fields that are read.
        values: the object.
        missing: texts that mean a missing value.
        broken: takes, by index, the reason of each element of the exploded list that has another form, and is NULL in the result.
        above: the path of the object, with a point at its end.

    Raises:
        MisfitError: the object has a field twice, or a value has another form.
    """
    if twice := sorted(values.twice & {field.name for field in fields}):
        raise MisfitError(f"{above}{twice[0]} is there twice")
    row: dict[str, Any] = {}
    for field in fields:
        value, name = values.get(field.name), f"{above}{field.name}"
        if isinstance(value, list) and is_each(field):
            row[field.name] = [
                _element(element, field.type.value_type, missing, f"{name}[]", place, broken)
                for place, element in enumerate(value)
            ]
        else:
            row[field.name] = _text(value, field.type, missing, name, broken)
    return row


def _element(
    value: Any, kind: pa.DataType, missing: Sequence[str], name: str, place: int, broken: dict[int, str]
) -> Any:
    try:
        return _text(value, kind, missing, name, {})
    except MisfitError as misfit:
        broken[place] = str(misfit)
        return None


def _text(value: Any, kind: pa.DataType, missing: Sequence[str], name: str, broken: dict[int, str]) -> Any:
    if value is None:
        return None
    if types.is_struct(kind):
        if not isinstance(value, _Object):
            raise MisfitError(f"{name} is not an object: {_short(value)}")
        return texts_of(kind, value, missing, broken, f"{name}.")
    if types.is_list(kind):
        if isinstance(value, list):
            inner = kind.value_type
            return [_text(element, inner, missing, f"{name}[{at}]", broken) for at, element in enumerate(value)]
        if not types.is_string(kind.value_type) or not isinstance(value, str | bool):
            form = named(kind) if types.is_string(kind.value_type) else "a list"
            raise MisfitError(f"{name} is not {form}: {_short(value)}")
        # Some producers leave out the brackets if there is only one value.
        is_missing = isinstance(value, str) and value.strip() in missing
        return None if is_missing else [_text(value, kind.value_type, missing, name, broken)]
    if isinstance(value, bool):
        return "true" if value else "false"
    # Half of a surrogate pair can be escaped in JSON, but UTF-8 cannot hold it.
    if isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value):
        return value
    raise MisfitError(f"{name} is not {named(kind)}: {_short(value)}")


def _object(pairs: list[tuple[str, Any]]) -> _Object:
    values = _Object(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        values.twice = frozenset(name for name in values if names.count(name) > 1)
    return values


def _constant(text: str) -> Number | None:
    # NaN means a missing value, as in pandas.
    return None if "NaN" in text else Number(text)


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=Number, parse_int=Number, parse_constant=_constant)


def _readable(line: bytes | bytearray) -> bytes | bytearray:
    """Return a line as Python's json can read it: with 0 in place of what is nested too deeply, and its names of floats."""
    if b"N" in line or b"I" in line:
        line = _NUMBER_OF_ARROW.sub(
            lambda match: (
                match[0]
                if match[0][:1] == b'"'
                else match[0].removeprefix(b"-" if b"N" in match[0] else b"").replace(b"Inf", b"Infinity")
            ),
            line,
        )
    if line.count(b"[") + line.count(b"{") <= _MAX_DEPTH:
        return line
    outside = np.frombuffer(_STRING.sub(lambda string: b" " * len(string[0]), line), np.uint8)
    opens, closes = np.isin(outside, (ord("["), ord("{"))), np.isin(outside, (ord("]"), ord("}")))
    depth = np.cumsum(opens.astype(np.int32)) - np.cumsum(closes.astype(np.int32)) + closes
    signs = np.where(opens & (depth == _MAX_DEPTH + 1), ord("0"), np.frombuffer(line, np.uint8)).astype(np.uint8)
    return signs[(depth <= _MAX_DEPTH) | (opens & (depth == _MAX_DEPTH + 1))].tobytes()


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else _written(value)
    return text.encode("utf-8", "backslashreplace").decode()[:SHOWN]


def _written(value: Any, depth: int = 0) -> str:
    """Return a value as JSON, as deeply as a reason shows it."""
    if isinstance(value, Number) or depth > SHOWN:
        return str(value) if isinstance(value, Number) else "…"
    if isinstance(value, list):
        return f"[{', '.join(_written(element, depth + 1) for element in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(name)}: {_written(inner, depth + 1)}' for name, inner in value.items())}}}"
    return json.dumps(value)
