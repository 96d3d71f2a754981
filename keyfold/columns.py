"""Declare the columns of a table: name, type, meaning, unit and lineage.

A declaration is an Arrow field with metadata. Delta's column comments, Dagster's column schema and lineage, and the tables of
the documentation come from it. Schemas are compared by names and types only, so descriptions can be changed at any time.

    >>> schema = pa.schema([
    ...     required("ride_id", pa.string(), "The ride", lineage="ride_id"),
    ...     column("fare", pa.float64(), "Fare of the ride; NULL without a meter", unit="dollars", lineage="meter"),
    ... ])
    >>> describe(schema.field("fare"))
    'Fare of the ride, dollars; NULL without a meter'
    >>> lineage_of(schema.field("fare"))
    ('meter',)
"""

import json
from collections.abc import Sequence

import polars as pl
import pyarrow as pa

from keyfold.errors import Misconfigured
from keyfold.schemas import arrow_type

Kind = pa.DataType | pl.DataType | type[pl.DataType]
"""A type of Arrow or of Polars."""

COMMENT = b"comment"
"""Key of a field's metadata that Delta, and so Spark's `DESCRIBE`, reads as the column's comment."""

_MEANING, _UNIT, _LINEAGE = b"keyfold.meaning", b"keyfold.unit", b"keyfold.lineage"


def column(
    name: str,
    kind: Kind,
    meaning: str,
    *,
    unit: str = "",
    lineage: str | Sequence[str] = (),
    nullable: bool = True,
) -> pa.Field:
    """Declare a column.

    Args:
        name: the column's name.
        kind: its type, of Arrow or of Polars.
        meaning: one line that says what a value means; text after a semicolon is about special values.
        unit: unit of the values: `metres`, `km/h`.
        lineage: columns of the job's stream that a value depends on, as a sequence or as text separated by blanks; empty for
            columns of a stream itself.
        nullable: whether values may be NULL.

    Raises:
        Misconfigured: `meaning` is empty, or `kind` is no type.

    Example:
        >>> fare = column("fare", pa.float64(), "Fare of the ride; NULL without a meter", unit="dollars")
        >>> describe(fare)
        'Fare of the ride, dollars; NULL without a meter'
    """
    if not meaning.strip():
        raise Misconfigured(f"column {name}: it needs a description, which is shown wherever the table is")
    names = lineage.split() if isinstance(lineage, str) else list(lineage)
    return pa.field(
        name,
        arrow_type(kind, f"column {name}"),
        nullable,
        {_MEANING: meaning, _UNIT: unit, _LINEAGE: json.dumps(names)},
    )


def required(name: str, kind: Kind, meaning: str, *, unit: str = "", lineage: str | Sequence[str] = ()) -> pa.Field:
    """Declare a column without NULL: `column` with `nullable=False`.

    Example:
        >>> required("ride_id", pa.string(), "The ride").nullable
        False
    """
    return column(name, kind, meaning, unit=unit, lineage=lineage, nullable=False)


def plain_columns(kind: pa.DataType, *names: str, nullable: bool = True) -> list[pa.Field]:
    """Declare columns of one type without meanings, for state.

    Example:
        >>> [field.name for field in plain_columns(pa.float64(), "latitude", "longitude")]
        ['latitude', 'longitude']
    """
    return [pa.field(name, kind, nullable) for name in names]


def passed_on(schema: pa.Schema) -> list[pa.Field]:
    """Return the columns of a stream as columns of a job's table that are copied unchanged.

    Example:
        >>> [lineage_of(field) for field in passed_on(pa.schema([("user", pa.string())]))]
        [('user',)]
    """
    return [with_lineage(field, [field.name]) for field in schema]


def with_lineage(field: pa.Field, columns: Sequence[str]) -> pa.Field:
    """Return a column that depends on these columns of the stream."""
    return field.with_metadata({**(field.metadata or {}), _LINEAGE: json.dumps(list(columns))})


def describe(field: pa.Field) -> str:
    """Return a column's meaning, with the unit after the first clause; empty for a field without a declaration."""
    meaning, semicolon, rest = _metadata(field, _MEANING).partition(";")
    return f"{meaning}, {unit_of(field)}{semicolon}{rest}" if unit_of(field) else f"{meaning}{semicolon}{rest}"


def meaning_of(field: pa.Field) -> str:
    """Return a column's meaning without its unit; empty for a field without a declaration."""
    return _metadata(field, _MEANING)


def unit_of(field: pa.Field) -> str:
    """Return the unit of a column's values; empty if they have none.

    Example:
        >>> unit_of(column("fare", pa.float64(), "Fare of the ride", unit="dollars"))
        'dollars'
    """
    return _metadata(field, _UNIT)


def lineage_of(field: pa.Field) -> tuple[str, ...]:
    """Return the declared columns of the stream that a column depends on."""
    return tuple(json.loads(_metadata(field, _LINEAGE) or "[]"))


def _metadata(field: pa.Field, key: bytes) -> str:
    return (field.metadata or {}).get(key, b"").decode()
