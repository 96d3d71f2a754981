"""Declare columns in short: a dict of names and types in place of an Arrow schema; and check them when they are declared."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import polars as pl
import pyarrow as pa
from pyarrow import types

from keyfold.errors import Misconfigured, Unfit

Columns = pa.Schema | Mapping[str, "pa.DataType | type[pl.DataType] | pl.DataType"] | Sequence[pa.Field]
"""Columns of a table or of state: an Arrow schema, a dict of names and types (of Arrow or Polars), or a list of
`keyfold.column(...)`."""


def to_schema(columns: Columns, never_null: Iterable[str] = ()) -> pa.Schema:
    """Convert declared columns to an Arrow schema.

    Args:
        columns: the declaration; in a list also pairs of a name and a type.
        never_null: columns of a dict that are never NULL, such as those of the key.

    Raises:
        ValueError: a type is none of Arrow or Polars; or a name is there twice.

    Example:
        >>> to_schema({"user": pl.String, "clicks": pa.int64()}, never_null=["user"])
        user: string not null
        clicks: int64
    """
    if isinstance(columns, Mapping):
        keys = set(never_null)
        fields = [pa.field(name, _to_arrow(name, kind), nullable=name not in keys) for name, kind in columns.items()]
    else:
        fields = [_to_field(column) for column in columns]
    schema = pa.schema(fields)
    if twice := sorted({name for name in schema.names if schema.names.count(name) > 1}):
        raise ValueError(f"{', '.join(twice)} is there twice")
    return schema


def to_stored_schema(columns: Columns, never_null: Iterable[str] = ()) -> pa.Schema:
    """As `to_schema`, for columns of a Delta table.

    Raises:
        ValueError: as there; or there is no column, or Delta has no such type, or no column of this name.

    Example:
        >>> to_stored_schema({"user": pl.String, "clicks": pl.UInt32})
        Traceback (most recent call last):
        ValueError: clicks is uint32, which a Delta table cannot hold: take int64
    """
    schema = to_schema(columns, never_null)
    if not schema.names:
        raise ValueError("declare at least one column")
    for name in schema.names:
        if name.startswith("#") or _NOT_IN_NAMES.search(name) or not name:
            raise ValueError(
                f"a column cannot be called {name!r}: leave out blanks, commas, semicolons, brackets, equals signs, and a "
                "number sign at the beginning"
            )
        if alike := [other for other in schema.names if other != name and other.lower() == name.lower()]:
            raise ValueError(f"{name} and {alike[0]} differ in case alone, which Delta ignores; rename one")
    for field in schema:
        if remedy := _remedy_of(field.type):
            raise ValueError(f"{field.name} is {field.type}, which a Delta table cannot hold: {remedy}")
    return schema


def declared_schema(context: str, columns: Columns, never_null: Iterable[str] = ()) -> pa.Schema:
    """As `to_schema`, for an argument of a function.

    Raises:
        Misconfigured: as there.
    """
    try:
        return to_schema(columns, never_null)
    except ValueError as error:
        raise Misconfigured(f"{context}: {error}") from None


def stored_schema(context: str, columns: Columns, never_null: Iterable[str] = ()) -> pa.Schema:
    """As `to_stored_schema`, for an argument of a function.

    Raises:
        Misconfigured: as there.
    """
    try:
        return to_stored_schema(columns, never_null)
    except ValueError as error:
        raise Misconfigured(f"{context}: {error}") from None


def _remedy_of(kind: pa.DataType) -> str | None:
    """Return what to take in place of a type that Delta lacks; None for a type that it has."""
    if types.is_struct(kind):
        return next((remedy for field in kind if (remedy := _remedy_of(field.type))), None)
    if types.is_list(kind) or types.is_large_list(kind):
        return _remedy_of(kind.value_type)
    return next((remedy for is_kind, remedy in _NOT_IN_DELTA if is_kind(kind)), None)


def _to_field(column: Any) -> pa.Field:
    if isinstance(column, pa.Field):
        return column
    try:
        name, kind = column
    except (TypeError, ValueError):
        raise ValueError(f"{column!r} is no column; give column(name, type, meaning), or a name and a type") from None
    return pa.field(name, _to_arrow(name, kind))


def _to_arrow(name: str, kind: object) -> pa.DataType:
    try:
        return arrow_type(kind, name)
    except Misconfigured as error:
        raise ValueError(str(error)) from None


def arrow_type(kind: object, context: str = "a column") -> pa.DataType:
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
    raise Misconfigured(f"{context} has type {kind!r}; give a type of Polars (pl.Int64) or Arrow (pa.int64())")


def type_of(expression: pl.Expr, columns: Mapping[str, pl.DataType] | pl.Schema) -> pl.DataType:
    """Return the type of an expression over columns, without evaluating it.

    So that modules of jobs can be imported in a process that forks: Polars' threads, which an evaluation starts, do not outlive it.

    Raises:
        polars.exceptions.PolarsError: it does not fit the columns.

    Example:
        >>> type_of(pl.col("at").dt.hour(), {"at": pl.Datetime("us", "UTC")})
        Int8
    """
    # Not by the schema of a lazy frame, which starts a thread too.
    return pl.dtype_of(expression).collect_dtype(dict(columns))


def field_of(context: str, name: str, schema: pa.Schema) -> pa.Field:
    """Return a column of a schema, such as one that a parameter of a job names.

    Args:
        context: names the declaration in the error, such as `job visits: columns`.
        name: the column's name.
        schema: the columns that there are.

    Raises:
        Misconfigured: there is none of this name; names the nearest one, and all.

    Example:
        >>> field_of("job visits: columns", "user", pa.schema([("user", pa.string())])).type
        DataType(string)
    """
    if name not in schema.names:
        raise Misconfigured(f"{context}: there is no column {name}{nearest(name, schema.names)}")
    return schema.field(name)


def to_names(value: str | Sequence[str]) -> tuple[str, ...]:
    """Convert names of columns that are given as a sequence, or as one text.

    Raises:
        Unfit: they are none.

    Example:
        >>> to_names("user")
        ('user',)
    """
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, Sequence) or not all(isinstance(name, str) for name in value):
        raise Unfit("give the name of a column as text, or a list of them")
    return tuple(value)


def names_of(value: str | Sequence[str]) -> tuple[str, ...]:
    """As `to_names`, for an argument of a function.

    Raises:
        Misconfigured: they are none.
    """
    try:
        return to_names(value)
    except Unfit as error:
        raise Misconfigured(f"{value!r} stands where names of columns should: {error}") from None


def to_name(value: str) -> str:
    """Return the name of a stream, a job or a table, which names folders too.

    Raises:
        Unfit: it has other characters than lower-case letters, digits and underscores.
    """
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise Unfit("it must be lower-case letters, digits and underscores, with a letter first")
    return value


def check_name(context: str, name: str) -> None:
    """As `to_name`, for an argument of a function.

    Raises:
        Misconfigured: it has other characters.
    """
    try:
        to_name(name)
    except Unfit as error:
        raise Misconfigured(f"{context}: name is {name!r}: {error}") from None


def require(context: str, value: object, kinds: Any, wanted: str) -> None:
    """Check the type of what is declared.

    Raises:
        Misconfigured: it has another type; says what is wanted.

    Example:
        >>> require("input clicks: where", "n > 3", pl.Expr, "an expression")
        Traceback (most recent call last):
        keyfold.errors.Misconfigured: input clicks: where is 'n > 3'; it must be an expression
    """
    if not isinstance(value, kinds):
        raise Misconfigured(f"{context} is {value!r}; it must be {wanted}")


def check_by_row(context: str, expression: pl.Expr) -> None:
    """Check that the value of an expression for a row is of that row alone.

    Raises:
        Misconfigured: it takes several rows together, of which a file or a batch has only some.

    Example:
        >>> check_by_row("input clicks: where", pl.col("cents") > pl.col("cents").mean())
        Traceback (most recent call last):
        keyfold.errors.Misconfigured: input clicks: where: col("cents").mean() takes several rows together, and a file or a \
batch has only some of them: aggregate with an operator (`windows`, `running`), or write a step
    """
    if (part := _of_several_rows(expression)) is not None:
        raise Misconfigured(
            f"{context}: {part} takes several rows together, and a file or a batch has only some of them: aggregate with an "
            "operator (`windows`, `running`), or write a step"
        )


def _of_several_rows(expression: pl.Expr) -> pl.Expr | None:
    try:
        meta, parts = expression.meta, expression.meta.pop()
        if meta.eq(pl.len()):
            return expression
        # A row's place in a series is the row's own.
        is_looked_up = any(operand.meta.is_literal() and not operand.meta.is_scalar() for operand in parts)
        is_in_order = meta.is_length_preserving() and not meta.is_row_separable() and not is_looked_up
        if meta.root_names() and (meta.is_scalar() or is_in_order):
            return expression
    except (pl.exceptions.PolarsError, AttributeError):
        # Polars does not tell of functions of Python, and of elements of lists; before version 2 of nothing.
        return None
    return next((part for operand in parts if (part := _of_several_rows(operand)) is not None), None)


def check_condition(context: str, expression: object, columns: pa.Schema) -> None:
    """Check that an expression is a condition on a row of these columns.

    Raises:
        Misconfigured: it is no expression, names another column, is not true or false, or takes several rows together.
    """
    if not isinstance(expression, pl.Expr):
        raise Misconfigured(f"{context} is {expression!r}; it must be an expression, such as pl.col('amount') > 3")
    for name in expression.meta.root_names():
        field_of(context, name, columns)
    # Of a column alone: to tell the type of others, Polars may start threads, which a fork after an import lacks.
    if expression.meta.is_column() and not types.is_boolean(kind := columns.field(expression.meta.output_name()).type):
        raise Misconfigured(f"{context} is {expression}, which is {kind}; it must be true or false")
    check_by_row(context, expression)


def nearest(name: str, names: Sequence[str]) -> str:
    """Return the end of an error about an unknown name: the nearest known one, and all of them.

    Example:
        >>> nearest("timout", ["timeout", "delay"])
        '; did you mean timeout? There are timeout, delay'
    """
    close = get_close_matches(name, names, n=1)
    return f"; {f'did you mean {close[0]}? ' if close else ''}{'T' if close else 't'}here are {', '.join(names)}"


def _with_short_offsets(kind: pa.DataType) -> pa.DataType:
    """Return a type as tables declare it: Polars has 64-bit offsets in texts and lists."""
    if types.is_large_string(kind):
        return pa.string()
    if types.is_large_binary(kind):
        return pa.binary()
    if types.is_large_list(kind):
        return pa.list_(_with_short_offsets(kind.value_type))
    if types.is_struct(kind):
        return pa.struct([field.with_type(_with_short_offsets(field.type)) for field in kind])
    return kind


_NOT_IN_NAMES = re.compile(r"[ ,;{}()=\s]")
_NOT_IN_DELTA: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (types.is_unsigned_integer, "take int64"),
    (types.is_duration, "take int64, with its unit in the name"),
    (types.is_time, "take text, or int64 of microseconds since midnight"),
    (types.is_float16, "take float32"),
    (types.is_null, "cast it to a type, such as text"),
    (types.is_dictionary, "take text"),
    (lambda kind: types.is_timestamp(kind) and kind.unit != "us", 'take pa.timestamp("us", tz="UTC")'),
    (lambda kind: types.is_timestamp(kind) and kind.tz not in (None, "UTC"), 'take pa.timestamp("us", tz="UTC")'),
    (lambda kind: types.is_decimal(kind) and kind.bit_width > 128, "take at most 38 digits"),
)
_NAME = re.compile(r"[a-z][a-z0-9_]*")
