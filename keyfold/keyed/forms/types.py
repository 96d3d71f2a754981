"""Types of columns as text, from Polars' types and from their serialized form; independent of the version of Polars."""

import json
from collections.abc import Callable, Iterable
from typing import Any

import polars as pl

_UNITS = {"Milliseconds": "ms", "Microseconds": "us", "Nanoseconds": "ns"}


def type_text(kind: Any) -> str:
    """Return a type as text.

    Args:
        kind: a type of Polars, or what its serialized form has for it.

    Example:
        >>> type_text(pl.List(pl.Datetime("us", "UTC"))), type_text({"List": {"Datetime": ["Microseconds", {"inner": "UTC"}]}})
        ('list[datetime[us, UTC]]', 'list[datetime[us, UTC]]')
    """
    if isinstance(kind, str):
        return kind.lower()
    if isinstance(kind, dict) and len(kind) == 1:
        ((name, content),) = kind.items()
        text = _OF_SERIALIZED.get(name)
        return text(content) if text else f"{name.lower()}[{json.dumps(content, sort_keys=True)}]"
    if isinstance(kind, pl.DataType):
        text = next(
            (text for of, text in _OF_POLARS.items() if isinstance(kind, of)),
            lambda polars_type: type(polars_type).__name__.lower(),
        )
        return text(kind)
    # A class of types stands for any of them.
    return kind.__name__.lower() if isinstance(kind, type) else json.dumps(kind, sort_keys=True, default=str)


def _time(unit: str, zone: str | None) -> str:
    return f"datetime[{unit}, {zone}]" if zone else f"datetime[{unit}]"


def _struct(fields: Iterable[tuple[str, Any]]) -> str:
    return f"struct[{', '.join(f'{name}: {type_text(kind)}' for name, kind in fields)}]"


def _enum(content: Any) -> str:
    return f"enum{pl.read_ipc_stream(bytes(content['strings'])).to_series().to_list()}"


_OF_POLARS: dict[type[pl.DataType], Callable[[Any], str]] = {
    pl.List: lambda kind: f"list[{type_text(kind.inner)}]",
    pl.Array: lambda kind: f"array[{type_text(kind.inner)}, {kind.size}]",
    pl.Struct: lambda kind: _struct((field.name, field.dtype) for field in kind.fields),
    pl.Datetime: lambda kind: _time(kind.time_unit, kind.time_zone),
    pl.Duration: lambda kind: f"duration[{kind.time_unit}]",
    pl.Decimal: lambda kind: f"decimal[{kind.precision}, {kind.scale}]",
    pl.Enum: lambda kind: f"enum{kind.categories.to_list()}",
}
_OF_SERIALIZED: dict[str, Callable[[Any], str]] = {
    "List": lambda inner: f"list[{type_text(inner)}]",
    "Array": lambda content: f"array[{type_text(content[0])}, {content[1]}]",
    "Struct": lambda fields: _struct((field["name"], field["dtype"]) for field in fields),
    "Datetime": lambda content: _time(
        _UNITS[content[0]], content[1]["inner"] if isinstance(content[1], dict) else content[1]
    ),
    "Duration": lambda unit: f"duration[{_UNITS[unit]}]",
    "Decimal": lambda content: f"decimal[{content[0]}, {content[1]}]",
    "Enum": _enum,
    "Categorical": lambda _: "categorical",
}
