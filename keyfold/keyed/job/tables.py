"""Declare the tables that a job writes, and the columns of changes of upsert tables."""

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

import polars as pl
import pyarrow as pa

from keyfold.columns import column, lineage_of, required
from keyfold.errors import Misconfigured
from keyfold.stream import TIMESTAMP

# Prefixes of the tables that Keyfold adds to those of the job.
_TABLE_NAME = re.compile(r"((late|changes)\.)?[a-z][a-z0-9_]*")


@dataclass(frozen=True)
class OutputTable:
    """A table that a job writes: appended to, or updated in place by its key columns.

    Attributes:
        name: name of the table.
        schema: its columns (`keyfold.columns`).
        mode: `append`, or `upsert` by `key`.
        key: key of an upsert table, which has one row for each; never NULL. A batch writes one row of a key at most.
        events: expression for the number of events in its rows that are in no other table (conservation check).
        description: description of the table.
        changes: whether an upsert table's changes are written to `changes.<name>`, for jobs that read them
            (`KeyedJob.changes`).

    Example:
        >>> user = pa.field("user", pa.string(), nullable=False)
        >>> totals = OutputTable("totals", pa.schema([user, ("clicks", pa.int64())]), "upsert", key=("user",))
        >>> OutputTable("totals", totals.schema, "upsert")
        Traceback (most recent call last):
        keyfold.errors.Misconfigured: table totals: an upsert table needs a key and an append table has none
    """

    name: str
    schema: pa.Schema
    mode: Literal["append", "upsert"] = "append"
    key: tuple[str, ...] = ()
    events: pl.Expr = field(default_factory=lambda: pl.lit(0))
    description: str = ""
    changes: bool = False

    def __post_init__(self) -> None:
        if not _TABLE_NAME.fullmatch(self.name):
            raise Misconfigured(f"table name {self.name!r} must be lower-case letters, digits and underscores")
        if (self.mode == "upsert") != bool(self.key):
            raise Misconfigured(f"table {self.name}: an upsert table needs a key and an append table has none")
        require_columns(f"table {self.name}: key", self.key, self.schema)
        require_not_null(f"table {self.name}: key", self.key, self.schema)
        if self.changes and self.mode == "append":
            raise Misconfigured(f"table {self.name}: changes=True is for an upsert table; read the append table itself")
        names = schema_of_changes(self.schema, self.key).names if self.changes else []
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise Misconfigured(
                f"table {self.name}: its changes would have two columns {', '.join(twice)}; rename its own"
            )


CHANGED_AT, CHANGE, IS_NEW = "changed_at", "change", "is_new"
"""Columns of a table of changes, besides those of the rows before and after (`schema_of_changes`)."""


def name_of_changes(table: str) -> str:
    """Return the name of the table with an upsert table's changes."""
    return f"changes.{table}"


def before(name: str) -> str:
    """Return the column of a table of changes with the value before the change."""
    return f"{name}_before"


def schema_of_changes(schema: pa.Schema, key: Collection[str], known: Collection[str] = ()) -> pa.Schema:
    """Return the columns of an upsert table's changes.

    Args:
        schema, key: columns and key of the upsert table.
        known: columns of the job's inputs. A column without declared lineage depends on the known column of its name.

    Example:
        >>> user = pa.field("user", pa.string(), nullable=False)
        >>> schema_of_changes(pa.schema([user, ("clicks", pa.int64())]), ("user",)).names
        ['user', 'clicks', 'clicks_before', 'is_new', 'changed_at', 'change']
    """

    def sources(field_: pa.Field) -> tuple[str, ...]:
        return lineage_of(field_) or ((field_.name,) if field_.name in known else ())

    of_key = tuple(dict.fromkeys(source for name in key for source in sources(schema.field(name))))
    olds = [
        column(before(one.name), one.type, f"`{one.name}` before the change; NULL of a new key", lineage=sources(one))
        for one in schema
        if one.name not in key
    ]
    return pa.schema(
        [
            *schema,
            *olds,
            required(IS_NEW, pa.bool_(), "Whether the key had no row before", lineage=of_key),
            required(CHANGED_AT, TIMESTAMP, "Watermark of the batch (UTC)", lineage=of_key),
            required(CHANGE, pa.int64(), "Number of the batch; a key changes once in it", lineage=of_key),
        ]
    )


def changes_of(table: OutputTable, job: str, known: Collection[str]) -> OutputTable:
    """Return the table with the changes of an upsert table (`schema_of_changes`)."""
    return OutputTable(
        name_of_changes(table.name),
        schema_of_changes(table.schema, table.key, known),
        description=f"What each batch of `{job}` made of each key of `{table.name}`.",
    )


def require_columns(where: str, columns: tuple[str, ...], schema: pa.Schema) -> None:
    """Raise `Misconfigured` if a schema lacks a column."""
    missing = [column for column in columns if column not in schema.names]
    if missing:
        raise Misconfigured(f"{where} has no column {', '.join(missing)}; it has {', '.join(schema.names)}")


def require_not_null(where: str, columns: tuple[str, ...], schema: pa.Schema) -> None:
    """Raise `Misconfigured` if a column may be NULL."""
    nullable = [column for column in columns if schema.field(column).nullable]
    if nullable:
        raise Misconfigured(
            f"{where} column {', '.join(nullable)} may be NULL, and NULL equals nothing, not even itself: declare it with "
            "nullable=False, and see that no event lacks it"
        )


def require_timestamp(where: str, column: str, schema: pa.Schema) -> None:
    """Raise `Misconfigured` if a column is not a UTC timestamp in microseconds."""
    kind = schema.field(column).type
    if kind != pa.timestamp("us", tz="UTC"):
        raise Misconfigured(f"{where}: column {column} is {kind}; it must be timestamp[us, tz=UTC]")
