"""Flatten the objects of a sample into columns named by paths; keep objects without fixed fields as JSON text."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from keyfold.ingestion.parsing.mapping import as_json
from keyfold.stream.raw_paths import path_of

_MOST_FIELDS = 50
_LIST = (
    "a list of values other than texts is kept as JSON text; if each element is an event, write "
    "Source('{name}[].FIELD') in `sources`"
)
_OPEN = (
    "an object whose fields differ from row to row is kept as JSON text; to read one field, write "
    "Source('{name}.FIELD') in `sources`"
)


class Flattened:
    """The flattened columns.

    Attributes:
        values: the values by column; None if a row has none.
        kept: the columns that are JSON text, with the reason.
        misfits: the number of values that are not objects, by column of objects; their lines would go to quarantine.
    """

    def __init__(self) -> None:
        self.values: dict[str, list[Any]] = {}
        self.kept: dict[str, str] = {}
        self.misfits: dict[str, int] = {}


def flatten(columns: Mapping[str, list[Any]]) -> Flattened:
    """Flatten the objects among the values of columns.

    Example:
        >>> flatten({"device": [{"id": 1, "at": {"lat": 2.5}}, None]}).values
        {'device.id': [1, None], 'device.at.lat': [2.5, None]}
        >>> flatten({"tags": [["a"]], "all": [[1, {}]]}).values
        {'tags': [['a']], 'all': ['[1, {}]']}
    """
    found = Flattened()
    for name, values in columns.items():
        _open(found, name, values, columns)
    return found


def _open(found: Flattened, name: str, values: list[Any], taken: Mapping[str, Any]) -> None:
    there = [value for value in values if value is not None]
    objects = [value for value in there if isinstance(value, dict)]
    is_nested = [isinstance(value, dict) or not _is_plain(value) for value in there]
    # Columns that are mostly plain stay as they are; nested values among them count as of another type.
    if not any(is_nested) or sum(is_nested) * 2 <= len(there):
        found.values[name] = values
        return
    fields = Counter(key for one in objects for key in one)
    if len(objects) * 2 <= len(there) or _is_open(name, fields, len(objects), taken):
        found.values[name] = [None if value is None else json.dumps(value, ensure_ascii=False) for value in values]
        found.kept[name] = (_OPEN if len(objects) * 2 > len(there) else _LIST).format(name=name)
        return
    if len(objects) < len(there):
        found.misfits[name] = len(there) - len(objects)
    for key in fields:
        inside = [value.get(key) if isinstance(value, dict) else None for value in values]
        _open(found, f"{name}.{key}", inside, taken)


def _is_plain(value: Any) -> bool:
    return not isinstance(value, list) or all(isinstance(one, str) for one in value)


def _is_open(name: str, fields: Mapping[str, int], objects: int, taken: Mapping[str, Any]) -> bool:
    """Return whether the fields differ from row to row, so that field names are data, or cannot be written in a path."""
    seldom = sum(count * 2 < objects for count in fields.values())
    return (
        not fields
        or len(fields) > _MOST_FIELDS
        or seldom * 2 > len(fields)
        or any(not _is_reached(name, key) or f"{name}.{key}" in taken for key in fields)
    )


def _is_reached(name: str, key: str) -> bool:
    return path_of(f"{name}.{key}") == (*path_of(name), key)


def flatten_table(table: pa.Table) -> tuple[dict[str, pa.ChunkedArray], dict[str, str]]:
    """Flatten the structs of a table; return its columns, and the reason for each that is JSON text."""
    columns: dict[str, pa.ChunkedArray] = {}
    kept: dict[str, str] = {}
    for name, column in _fields(table.column_names, table.columns):
        kind = column.type
        if types.is_struct(kind) or types.is_map(kind):
            columns[name], kept[name] = as_json(column), _OPEN.format(name=name)
        elif types.is_nested(kind) and not _is_text(kind.value_type):
            columns[name], kept[name] = as_json(column), _LIST.format(name=name)
        else:
            columns[name] = column
    return columns, kept


def _is_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def _fields(names: Sequence[str], columns: Sequence[pa.ChunkedArray]) -> Iterator[tuple[str, pa.ChunkedArray]]:
    for name, column in zip(names, columns, strict=True):
        fields = [column.type.field(at).name for at in range(column.type.num_fields)]
        is_reached = all(_is_reached(name, one) and f"{name}.{one}" not in names for one in fields)
        if types.is_struct(column.type) and is_reached and 0 < len(fields) <= _MOST_FIELDS:
            inside = [pc.call_function("struct_field", [column], pc.StructFieldOptions([one])) for one in fields]
            yield from _fields([f"{name}.{one}" for one in fields], inside)
        else:
            yield name, column
