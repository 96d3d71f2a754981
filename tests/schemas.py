"""Schemas of streams, as text."""

import pyarrow as pa

from keyfold.stream import TIMESTAMP

_TYPES = {
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "string": pa.string(),
    "strings": pa.list_(pa.string()),
    "time": TIMESTAMP,
    "date": pa.date32(),
    "price": pa.decimal128(10, 2),
    "numbers": pa.list_(pa.int64()),
    "pair": pa.struct([("n", pa.int64()), ("on", pa.date32())]),
}


def schema_of(columns: str) -> pa.Schema:
    """Columns and their types; a type with `!` may not be null.

    >>> schema_of("user string!, seq int64").names
    ['user', 'seq']
    """
    pairs = [column.split() for column in columns.split(",")]
    return pa.schema([pa.field(name, _TYPES[kind.rstrip("!")], nullable="!" not in kind) for name, kind in pairs])
