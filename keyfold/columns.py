"""A table's columns, declared once: the type, what it means, in what unit, and of which columns it is made.

A declaration is an Arrow field with what is said of it in its metadata. Delta's column comments, Dagster's column
schema and lineage, and the tables of the pages all come from there. Schemas are compared by names and types alone, so
that words can be changed while a generation lives.

    >>> schema = pa.schema([
    ...     column("ride_id", pa.string(), "The ride", made_of=("ride_id",), nullable=False),
    ...     column("fare", pa.float64(), "Fare of the ride; NULL without a meter", unit="dollars", made_of=("meter",)),
    ... ])
    >>> describe(schema.field("fare"))
    'Fare of the ride, dollars; NULL without a meter'
    >>> made_of(schema.field("fare"))
    ('meter',)
"""

import json
from collections.abc import Sequence

import pyarrow as pa

from keyfold.errors import Misconfigured

COMMENT = b"comment"
"""Key of a field's metadata under which Delta, and so Spark's `DESCRIBE`, looks for the column's comment."""

_MEANING, _UNIT, _MADE_OF = b"keyfold.meaning", b"keyfold.unit", b"keyfold.made_of"


def column(
    name: str,
    kind: pa.DataType,
    meaning: str,
    *,
    unit: str = "",
    made_of: Sequence[str] = (),
    nullable: bool = True,
) -> pa.Field:
    """Declare a column.

    Args:
        name: of the column.
        kind: its type.
        meaning: what a value says, in a line; what follows a semicolon is about special values.
        unit: of the values, as it is spoken: `metres`, `km/h`.
        made_of: columns of the job's stream that a value depends on; empty for columns of a stream itself.
        nullable: whether a row may lack it.

    Raises:
        Misconfigured: `meaning` is empty.

    Example:
        >>> fare = column("fare", pa.float64(), "Fare of the ride; NULL without a meter", unit="dollars")
        >>> describe(fare)
        'Fare of the ride, dollars; NULL without a meter'
    """
    if not meaning.strip():
        raise Misconfigured(f"column {name}: say what it means; people read it wherever the table is shown")
    said = {_MEANING: meaning, _UNIT: unit, _MADE_OF: json.dumps(list(made_of))}
    return pa.field(name, kind, nullable=nullable, metadata=said)


def passed_on(schema: pa.Schema) -> list[pa.Field]:
    """The columns of a stream, as columns of a job's table that come through as they are."""
    return [field.with_metadata({**(field.metadata or {}), _MADE_OF: json.dumps([field.name])}) for field in schema]


def describe(field: pa.Field) -> str:
    """What people read of a column: its meaning, with the unit after the first clause; empty for a field as such."""
    meaning, semicolon, rest = _said(field, _MEANING).partition(";")
    return f"{meaning}, {unit_of(field)}{semicolon}{rest}" if unit_of(field) else f"{meaning}{semicolon}{rest}"


def meaning_of(field: pa.Field) -> str:
    """What a value of a column says, without its unit; empty for a field as such."""
    return _said(field, _MEANING)


def unit_of(field: pa.Field) -> str:
    """The unit of a column's values; empty where they have none."""
    return _said(field, _UNIT)


def made_of(field: pa.Field) -> tuple[str, ...]:
    """The columns of the stream that a column is made of, as declared."""
    return tuple(json.loads(_said(field, _MADE_OF) or "[]"))


def _said(field: pa.Field, key: bytes) -> str:
    return (field.metadata or {}).get(key, b"").decode()
