"""Declare the tables that a job writes."""

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import polars as pl
import pyarrow as pa

from keyfold.errors import Misconfigured
from keyfold.keyed.job.column_checks import require_columns, require_not_null
from keyfold.keyed.job.job_tables import name_of_changes, schema_of_changes

if TYPE_CHECKING:
    from keyfold.keyed.job.contract import KeyedJob

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
            (`JobTable.changes_of`).

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


def tables_of(job: "KeyedJob") -> tuple[OutputTable, ...]:
    """Return all tables that a job writes: main table, side outputs, changes of upsert tables, and the late table."""
    own = OutputTable(
        job.name, job.output, job.output_mode, job.output_key, job.output_events, changes=job.output_changes
    )
    sources = " and ".join(f"`{one.name}`" for one in job.sources)
    description = job.late_description or (
        f"Events of {sources} that came too late for `{job.name}`; they change none of its rows."
    )
    late = OutputTable(job.late_table, job.events, events=job.event_count, description=description)
    tables = (own, *job.side_outputs)
    known = {name for one in job.sources for name in one.event_schema.names}
    changes = [
        OutputTable(
            name_of_changes(one.name),
            schema_of_changes(one.schema, one.key, known),
            description=f"What each batch of `{job.name}` made of each key of `{one.name}`.",
        )
        for one in tables
        if one.changes
    ]
    return (*tables, *changes, late)
