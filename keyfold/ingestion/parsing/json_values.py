"""Read one JSON object with Python's json, and say why a value does not fit its column's type.

It is slow, and used for the few lines that Arrow's reader rejects (`json_lines`). Its results are those that Arrow would give.
"""

import json
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Self

import numpy as np
import pyarrow as pa
from pyarrow import types

from keyfold.exact_cast import exact_decimal, whole_number
from keyfold.ingestion.parsing.casting import SHOWN, named
from keyfold.stream.source import is_each

NOT_JSON = "not valid JSON"
"""The beginning of the reason for a value that is no JSON."""

_DIGITS = 300
"""Integers with more digits are read as floats. All with fewer are in the range of floats."""

_MAX_DEPTH = 500
"""Maximum nesting that Python's reader is used for, since its own limit depends on the call stack."""

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?')


def read_object(
    schema: pa.Schema, value: bytes | bytearray, missing: tuple[str, ...]
) -> tuple[dict[str, Any], str | None, Mapping[int, str]]:
    """Return a line's row, or why it is rejected; and by index, why elements of the exploded list are rejected."""
    if is_deep(value):
        return {}, f"{NOT_JSON}: nested too deeply", {}
    try:
        content = _DECODER.decode(value.decode("utf-8-sig"))
    except ValueError as error:
        return {}, f"{NOT_JSON}: {error}", {}
    if not isinstance(content, dict):
        return {}, f"not a JSON object: {_short(content)}", {}
    elements: dict[int, str] = {}
    try:
        return _fields(content, schema, missing, "", elements), None, elements
    except _MisfitError as wrong:
        return {}, str(wrong), {}


def is_deep(value: bytes | bytearray) -> bool:
    """Whether arrays and objects are nested too deeply for Python's reader."""
    count = value.count(b"[") + value.count(b"{")
    if count <= _MAX_DEPTH:
        return False
    signs = np.frombuffer(_STRING.sub(b"", value), np.uint8)
    steps = np.isin(signs, (ord("["), ord("{"))).astype(np.int32) - np.isin(signs, (ord("]"), ord("}")))
    return int(np.cumsum(steps).max(initial=0)) > _MAX_DEPTH


def is_text(target: pa.DataType) -> bool:
    """Whether values of a type are text in JSON: texts, times and dates."""
    return types.is_string(target) or types.is_timestamp(target) or types.is_date(target)


class _MisfitError(Exception):
    """A value does not fit its column's type; the message is the reason."""


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


def _fields(
    found: dict[str, Any], fields: Iterable[pa.Field], missing: tuple[str, ...], above: str, elements: dict[int, str]
) -> dict[str, Any]:
    """Read the schema's fields of an object.

    Raises:
        _MisfitError: a field does not fit its type.
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
        except _MisfitError as wrong:
            read.append(None)
            elements[place] = str(wrong)
    return read


def _value(given: Any, kind: pa.DataType, missing: tuple[str, ...], name: str, elements: dict[int, str]) -> Any:
    if given is None or given != given:  # NULL or NaN  # noqa: PLR0124
        return None
    if types.is_struct(kind):
        if not isinstance(given, dict):
            raise _MisfitError(f"{name} is not an object: {_short(given)}")
        return _fields(given, kind, missing, f"{name}.", elements)
    if types.is_list(kind) and not types.is_string(kind.value_type):
        if not isinstance(given, list):
            raise _MisfitError(f"{name} is not a list: {_short(given)}")
        return [_value(one, kind.value_type, missing, f"{name}[{place}]", elements) for place, one in enumerate(given)]
    # Before the type check, since "NA" in a column of numbers is a missing value, not a wrong one. In a column of text it
    # becomes NULL later, as for lines that Arrow reads.
    if isinstance(given, str) and not is_text(kind) and given.strip() in missing:
        return None
    typed = _typed(given, kind)
    if typed is None:
        raise _MisfitError(f"{name} is not {named(kind)}: {_short(given)}")
    return typed


def _typed(given: Any, target: pa.DataType) -> Any:
    """Convert a value to the column's type; None if it does not fit. The results are the same as Arrow's."""
    if types.is_list(target):
        values = given if isinstance(given, list) else [given]
        return (
            values
            if all(value is None or (isinstance(value, str) and _is_unicode(value)) for value in values)
            else None
        )
    if is_text(target):
        fits = isinstance(given, str) and _is_unicode(given)
    elif types.is_boolean(target):
        fits = isinstance(given, bool)
    elif types.is_decimal(target):
        return _typed_decimal(given, target)
    else:
        return _typed_number(given, target)
    return given if fits else None


def _typed_decimal(given: Any, target: pa.Decimal128Type) -> Decimal | None:
    """Convert a number, or a text with one: producers write decimals as text, since many readers make floats of numbers."""
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        return None
    text = given.text if isinstance(given, _Real) else str(given)
    return exact_decimal(text, target.precision, target.scale)


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
