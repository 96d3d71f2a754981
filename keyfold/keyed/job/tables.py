"""Declare the tables that a job writes, and the columns of changes of upsert tables."""

from collections.abc import Collection, Sequence
from dataclasses import field, replace
from typing import Literal

import polars as pl
import pyarrow as pa

from keyfold.columns import column, lineage_of, required
from keyfold.errors import Misconfigured
from keyfold.schemas import Columns, check_name, stored_schema, to_names, to_schema
from keyfold.stream import TIMESTAMP
from keyfold.validation import argument, declaration, never_null


@declaration("table {name}")
class OutputTable:
    """A table that a job writes; declare it as `Append` or `Upsert`.

    Attributes:
        schema: its columns.
        name: name of the table; empty for the main table, which has the job's name.
        key: key of an upsert table; empty for an append table.
        events: expression for the number of events in its rows that are in no other table (conservation check).
        description: description of the table.
        changes: whether an upsert table's changes are written to `changes.<name>`.
        counts_written: whether the events of an upsert table are those in all rows that are written, since each row stands for
            events of its own, and replaces one of others. Otherwise they are those in the rows that the table has.
        role: whether the step writes it (`own`), or the engine: late events, or the changes of an upsert table.
    """

    schema: pa.Schema = argument(converter=to_schema)
    name: str = ""
    key: tuple[str, ...] = argument(converter=to_names, default=())
    events: pl.Expr = field(default_factory=pl.len)
    description: str = ""
    changes: bool = False
    counts_written: bool = False
    role: Literal["own", "late", "changes"] = "own"
    _ = never_null("schema", by=("key",))

    def __post_init__(self) -> None:
        lacking = [name for name in self.key if name not in self.schema.names]
        if lacking:
            raise ValueError(f"key has no column {', '.join(lacking)}; it has {', '.join(self.schema.names)}")
        if nullable := [name for name in self.key if self.schema.field(name).nullable]:
            raise ValueError(
                f"key column {', '.join(nullable)} may be NULL, and NULL equals nothing, not even itself: declare it with "
                "nullable=False, and see that no event lacks it"
            )
        names = schema_of_changes(self.schema, self.key).names if self.changes else []
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"its changes would have two columns {', '.join(twice)}; rename its own")

    @property
    def mode(self) -> Literal["append", "upsert"]:
        """Whether rows are added, or updated in place by the key."""
        return "upsert" if self.key else "append"

    def named(self, name: str) -> "OutputTable":
        """Return the table with a name.

        Raises:
            Misconfigured: it is no name of a table.
        """
        check_name("table", name)
        return replace(self, name=name)


def Append(columns: Columns, *, name: str = "", events: pl.Expr | None = None, description: str = "") -> OutputTable:
    """Declare a table that rows are appended to.

    Args:
        columns: its columns: an Arrow schema, a dict of names and types, or a list of `keyfold.column(...)`.
        name: name of the table; empty for the main table, which has the job's name.
        events: expression for the number of events in rows that are in no other table. By default one per row of the
            main table, and none of the others.
        description: description of the table.

    Example:
        >>> Append({"user": pl.String, "clicks": pl.Int64}, name="long_visits").schema.names
        ['user', 'clicks']
    """
    return _storable(OutputTable(columns, name, (), _counted(name, events), description))


def Upsert(
    columns: Columns,
    key: str | Sequence[str],
    *,
    name: str = "",
    events: pl.Expr | None = None,
    description: str = "",
    changes: bool = False,
) -> OutputTable:
    """Declare a table with one row per key, which is updated in place. Of several rows of a key in a batch the last one stays.

    Args:
        columns, name, events, description: as of `Append`.
        key: the key's columns, with those of the job's key; never NULL.
        changes: whether the changes are written to `changes.<name>`, for jobs that read them (`KeyedJob.changes`).

    Raises:
        Misconfigured: the key has no column, one that the table lacks, or one that may be NULL.

    Example:
        >>> Upsert({"user": pl.String, "clicks": pl.Int64}, "user").key
        ('user',)
    """
    table = OutputTable(columns, name, key, _counted(name, events), description, changes)
    if not table.key:
        raise Misconfigured(f"{f'table {name}'.rstrip()}: key is empty; an upsert table has one row per key")
    return _storable(table)


def _storable(table: OutputTable) -> OutputTable:
    """Return a table that an author declares, if Delta can hold it. Late events have the types of the events, which are cast."""
    stored_schema(f"{f'table {table.name}'.rstrip()}: schema", table.schema)
    return table


def of_own_events(subject: str, table: OutputTable, counted: str) -> OutputTable:
    """Return a table of an operator each of whose rows stands for events of its own, which are counted.

    Args:
        subject: names the table's owner in errors.
        table: the table; it counts by its own expression, if it has one.
        counted: the column with the number of events, by which others count.

    Raises:
        Misconfigured: the table has neither.

    Example:
        >>> stops = of_own_events("job bus", Upsert({"bus": pl.String, "n": pl.Int64}, "bus", name="last_stop"), "n")
        >>> stops.counts_written
        True
    """
    events = table.events
    if events.meta.eq(pl.lit(0)):
        if counted not in table.schema.names:
            raise Misconfigured(
                f"{subject}: table {table.name}: its rows are all there is of their events, which it does not count; add "
                f"{counted} to its columns, or give it `events=`"
            )
        events = pl.col(counted).sum()
    return replace(table, events=events, counts_written=table.mode == "upsert")


def _counted(name: str, events: pl.Expr | None) -> pl.Expr:
    if events is not None:
        return events
    return pl.lit(0) if name else pl.len()


CHANGED_AT, CHANGE, IS_NEW = "changed_at", "change", "is_new"
"""Columns of a table of changes, besides those of the rows before and after (`schema_of_changes`)."""


def name_of_changes(table: str) -> str:
    """Return the name of the table with an upsert table's changes."""
    return f"changes.{table}"


def before(name: str) -> str:
    """Return the column of a table of changes with the value before the change."""
    return f"{name}_before"


def schema_of_changes(schema: pa.Schema, key: Collection[str], event_columns: Collection[str] = ()) -> pa.Schema:
    """Return the columns of an upsert table's changes.

    Args:
        schema, key: columns and key of the upsert table.
        event_columns: columns of the job's inputs. A column without declared lineage depends on that of its name.

    Example:
        >>> user = pa.field("user", pa.string(), nullable=False)
        >>> schema_of_changes(pa.schema([user, ("clicks", pa.int64())]), ("user",)).names
        ['user', 'clicks', 'clicks_before', 'is_new', 'changed_at', 'change']
    """

    def sources(field_: pa.Field) -> tuple[str, ...]:
        return lineage_of(field_) or ((field_.name,) if field_.name in event_columns else ())

    of_key = tuple(dict.fromkeys(source for name in key for source in sources(schema.field(name))))
    olds = [
        column(
            before(field.name),
            field.type,
            f"`{field.name}` before the change; NULL of a new key",
            lineage=sources(field),
        )
        for field in schema
        if field.name not in key
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


def changes_of(table: OutputTable, job: str, event_columns: Collection[str]) -> OutputTable:
    """Return the table with the changes of an upsert table (`schema_of_changes`)."""
    return OutputTable(
        schema_of_changes(table.schema, table.key, event_columns),
        name_of_changes(table.name),
        events=pl.lit(0),
        description=f"What each batch of `{job}` made of each key of `{table.name}`.",
        role="changes",
    )


def require_columns(subject: str, columns: tuple[str, ...], schema: pa.Schema) -> None:
    """Raise `Misconfigured` if a schema lacks a column."""
    missing = [column for column in columns if column not in schema.names]
    if missing:
        raise Misconfigured(f"{subject} has no column {', '.join(missing)}; it has {', '.join(schema.names)}")


def require_timestamp(subject: str, column: str, schema: pa.Schema) -> None:
    """Raise `Misconfigured` if a column is not a UTC timestamp in microseconds."""
    kind = schema.field(column).type
    if kind != pa.timestamp("us", tz="UTC"):
        raise Misconfigured(f"{subject}: column {column} is {kind}; it must be timestamp[us, tz=UTC]")
