"""Declare columns in short: a dict of names and types in place of an Arrow schema."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

import polars as pl
import pyarrow as pa
from pyarrow import types

from keyfold.errors import Misconfigured

Columns = pa.Schema | Mapping[str, "pa.DataType | type[pl.DataType] | pl.DataType"] | Sequence[pa.Field]
"""Columns of a table or of state: an Arrow schema, a dict of names and types (of Arrow or Polars), or a list of
`keyfold.column(...)`."""


def declared_schema(where: str, columns: Columns, never_null: Iterable[str] = ()) -> pa.Schema:
    """Return an Arrow schema of declared columns.

    Args:
        where: what the columns are of, for errors.
        columns: the declaration.
        never_null: columns of a dict that are never NULL, such as those of the key.

    Raises:
        Misconfigured: a type is none of Arrow or Polars; or a name is there twice.

    Example:
        >>> declared_schema("state", {"user": pl.String, "clicks": pa.int64()}, never_null=["user"])
        user: string not null
        clicks: int64
    """
    fields: list[pa.Field]
    if isinstance(columns, Mapping):
        keys = set(never_null)
        fields = [
            pa.field(name, arrow_type(kind, f"{where}: {name}"), nullable=name not in keys)
            for name, kind in columns.items()
        ]
    else:
        fields = list(columns)
    schema = pa.schema(fields)
    if twice := sorted({name for name in schema.names if schema.names.count(name) > 1}):
        raise Misconfigured(f"{where}: {', '.join(twice)} is there twice")
    return schema


def arrow_type(kind: object, where: str = "a column") -> pa.DataType:
    """Return the Arrow type of a type of Arrow or Polars.

    Raises:
        Misconfigured: it is none.

    Example:
        >>> arrow_type(pl.Datetime("us", "UTC"))
        TimestampType(timestamp[us, tz=UTC])
    """
    if isinstance(kind, pa.DataType):
        return kind
    if isinstance(kind, pl.DataType) or (isinstance(kind, type) and issubclass(kind, pl.DataType)):
        return _with_short_offsets(pl.Series([], dtype=kind).to_arrow().type)
    raise Misconfigured(f"{where} has type {kind!r}; give a type of Polars (pl.Int64) or Arrow (pa.int64())")


def type_of(how: pl.Expr, columns: Mapping[str, pl.DataType] | pl.Schema) -> pl.DataType:
    """Return the type of an expression over columns, without evaluating it.

    So that modules of jobs can be imported in a process that forks: Polars' threads, which an evaluation starts, do not outlive it.

    Raises:
        polars.exceptions.PolarsError: it does not fit the columns.

    Example:
        >>> type_of(pl.col("at").dt.hour(), {"at": pl.Datetime("us", "UTC")})
        Int8
    """
    return pl.LazyFrame(schema=dict(columns)).select(value=how).collect_schema()["value"]


def field_of(where: str, name: str, schema: pa.Schema) -> pa.Field:
    """Return a column of a schema.

    Raises:
        Misconfigured: there is none of this name; names the nearest one, and all.
    """
    if name not in schema.names:
        raise Misconfigured(f"{where}: there is no column {name}{nearest(name, schema.names)}")
    return schema.field(name)


def nearest(name: str, known: Sequence[str]) -> str:
    """Return the end of an error about an unknown name: the nearest known one, and all of them.

    Example:
        >>> nearest("timout", ["timeout", "delay"])
        '; did you mean timeout? There are timeout, delay'
    """
    close = get_close_matches(name, known, n=1)
    return f"; {f'did you mean {close[0]}? ' if close else ''}{'T' if close else 't'}here are {', '.join(known)}"


def _with_short_offsets(kind: pa.DataType) -> pa.DataType:
    """Return a type as tables declare it: Polars has 64-bit offsets in texts and lists."""
    if types.is_large_string(kind):
        return pa.string()
    if types.is_large_binary(kind):
        return pa.binary()
    if types.is_large_list(kind):
        return pa.list_(_with_short_offsets(kind.value_type))
    if types.is_struct(kind):
        return pa.struct([one.with_type(_with_short_offsets(one.type)) for one in kind])
    return kind
