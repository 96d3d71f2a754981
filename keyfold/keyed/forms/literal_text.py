"""Literals and types of canonical forms as text, as an author writes them: `timedelta(hours=1)`, `List(Int8)`."""

import re
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from keyfold.times import from_micros

_LONGEST_LIST = 12
"""Values of a list that are shown; of a longer one, its first values and its length."""


def listed(values: Sequence[Any], text: Callable[[Any], str]) -> str:
    """Return the texts of values, separated by commas; of many, the first ones and their number.

    Example:
        >>> listed(range(14), str)
        '0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, … (14 values)'
    """
    shown = ", ".join(map(text, values[:_LONGEST_LIST]))
    return shown if len(values) <= _LONGEST_LIST else f"{shown}, … ({len(values):,} values)"


def literal_text(kind: str, value: Any) -> str:
    """Return a literal as text.

    Args:
        kind: its canonical type (`forms.types`).
        value: its canonical value.

    Example:
        >>> literal_text("duration[us]", 5_400_000_000), literal_text("any int", 3)
        ('timedelta(hours=1, minutes=30)', '3')
    """
    if value is None:
        return "None"
    if isinstance(value, list):
        return f"[{listed(value, repr)}]"
    if text := next((text for of, text in _OF_KINDS.items() if kind.startswith(of)), None):
        return text(kind, value)
    is_plain = kind.startswith("any ") or kind in ("string", "boolean")
    return repr(value) if is_plain else f"lit({value!r}, {type_text_of(kind)})"


def type_text_of(kind: str) -> str:
    """Return a canonical type as an author writes it.

    Example:
        >>> type_text_of("list[datetime[us, UTC]]")
        "List(Datetime('us', 'UTC'))"
    """
    match = re.fullmatch(r"(\w+)(?:\[(.*)\])?", kind, re.DOTALL)
    name, inner = match.groups() if match else (kind, None)
    written = _TYPES.get(name, name.capitalize())
    if inner is None:
        return written
    return f"{written}({_WITHIN.get(name, str)(inner)})"


def _fields(inner: str) -> str:
    fields = (part.partition(": ") for part in _divided(inner))
    return f"{{{', '.join(f'{field!r}: {type_text_of(of)}' for field, _, of in fields)}}}"


def _elements(inner: str) -> str:
    return ", ".join(part if part.isdigit() else type_text_of(part) for part in _divided(inner))


def _divided(inner: str) -> list[str]:
    """Divide the text within brackets at commas that are in no further brackets."""
    return re.findall(r"(?:[^,\[\]]|\[(?:[^\[\]]|\[[^\[\]]*\])*\])+", inner.replace(", ", ","))


_TYPES = {"uint8": "UInt8", "uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64"}
_WITHIN: dict[str, Callable[[str], str]] = {
    "array": _elements,
    "datetime": lambda inner: ", ".join(repr(part.strip()) for part in inner.split(",")),
    "duration": repr,
    "enum": lambda inner: f"[{inner}]",
    "list": _elements,
    "struct": _fields,
}


def _decimal(kind: str, value: int) -> str:
    scale = int(kind[:-1].split(", ")[1])
    return f"Decimal('{Decimal(value).scaleb(-scale)}')"


def _float(kind: str, value: Any) -> str:
    if isinstance(value, str):
        return f"float('{value}')"
    return repr(value) if kind.startswith("any ") else f"lit({value!r}, {type_text_of(kind)})"


def _moment(kind: str, value: int) -> str:
    moment = from_micros(value)
    parts = [moment.year, moment.month, moment.day, moment.hour, moment.minute, moment.second, moment.microsecond]
    while len(parts) > len(("year", "month", "day")) and not parts[-1]:
        parts.pop()
    zone = kind[:-1].partition(", ")[2]
    zoned = "" if not zone else ", tzinfo=UTC" if zone == "UTC" else f", tzinfo=ZoneInfo({zone!r})"
    return f"datetime({', '.join(map(str, parts))}{zoned})"


def _day(_: str, value: int) -> str:
    day = date(1970, 1, 1) + timedelta(days=value)
    return f"date({day.year}, {day.month}, {day.day})"


def _time(_: str, value: int) -> str:
    moment = datetime(1970, 1, 1) + timedelta(microseconds=value // 1000)  # noqa: DTZ001
    return f"time({moment.hour}, {moment.minute}, {moment.second})"


def _duration(_: str, value: int) -> str:
    sign, rest = ("-", -value) if value < 0 else ("", value)
    parts = []
    for unit, size in _UNITS.items():
        number, rest = divmod(rest, size)
        parts += [f"{unit}={number}"] if number else []
    return f"{sign}timedelta({', '.join(parts)})"


_UNITS = {
    "days": 86_400_000_000,
    "hours": 3_600_000_000,
    "minutes": 60_000_000,
    "seconds": 1_000_000,
    "microseconds": 1,
}
_OF_KINDS: dict[str, Callable[[str, Any], str]] = {
    "any float": _float,
    "binary": lambda _, value: repr(bytes.fromhex(value)),
    "datetime[us": _moment,
    "datetime": lambda kind, value: f"lit({value!r}, {type_text_of(kind)})",
    "date": _day,
    "decimal": _decimal,
    "duration[us": _duration,
    "float": _float,
    "time": _time,
}
