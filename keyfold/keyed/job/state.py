"""Declare the state of a job."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import polars as pl
import pyarrow as pa

from keyfold.errors import Misconfigured
from keyfold.schemas import to_schema
from keyfold.validation import declaration


@dataclass(frozen=True)
class StoredAggregates:
    """What state keeps of an operator's aggregates, by which a move adds some and leaves others out.

    Attributes:
        parts: by aggregate, its columns of state, each with its value in a row that has none of its events.
        incomplete: the column that names the aggregates that lack events of a row; empty if rows never end, and a new aggregate
            counts from the move on.
        rows: which rows of state stand for events by these columns; others are events as they are.
        row_key: the columns that tell rows of state apart.
        order: the columns of state that order simultaneous events, by the columns of events that aggregates read.
        of_events: the columns that only rows have which are events.
    """

    parts: Mapping[str, Mapping[str, pl.Expr]]
    incomplete: str = ""
    rows: pl.Expr = field(default_factory=lambda: pl.lit(value=True))
    row_key: Sequence[str] = ()
    order: Sequence[str] = ()
    of_events: Sequence[str] = ()

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """The names of the columns of each aggregate."""
        return {name: tuple(parts) for name, parts in self.parts.items()}


@declaration("state")
class State:
    """The state that a job keeps: rows of a key, of which there may be any number.

    Attributes:
        columns: its columns. `deadline` and `processing_deadline` are timers. Columns of the key that a dict lacks are added.
        version: raise it when the meaning of the columns changes.
        migrations: functions that migrate rows from one version to the next, by the version they start from.
        events: expression for the number of events in rows that are in no output row yet. It must be additive: its value for
            all rows is the sum of its values for parts of them.
        one_per_key: condition on rows, of which a key may have one only; checked for state that is made from a table. None
            if a key may have several rows of any kind.
        aggregates: what an operator's state keeps of its aggregates.

    Example:
        >>> State({"user": pl.String, "clicks": pl.Int64}).schema.names
        ['user', 'clicks']
    """

    columns: pa.Schema | Mapping[str, Any] | Sequence[Any]
    version: int = 1
    migrations: Mapping[int, Callable[[pl.DataFrame], pl.DataFrame]] = field(default_factory=dict)
    events: pl.Expr = field(default_factory=pl.len)
    one_per_key: pl.Expr | None = None
    aggregates: StoredAggregates | None = None

    def __post_init__(self) -> None:
        _ = self.schema

    @cached_property
    def schema(self) -> pa.Schema:
        """Its columns, as they are declared."""
        return to_schema(self.columns)

    def with_key(self, subject: str, key: Sequence[pa.Field]) -> "State":
        """Return the state with the columns of the key, which a dict may leave out."""
        if not isinstance(self.columns, Mapping):
            return self
        names = [column.name for column in key]
        for column in key:
            if column.name in self.schema.names and (kind := self.schema.field(column.name).type) != column.type:
                raise Misconfigured(
                    f"{subject}: state: key column {column.name} is {kind}, and {column.type} in the events"
                )
        return replace(self, columns=pa.schema([*key, *(column for column in self.schema if column.name not in names)]))
