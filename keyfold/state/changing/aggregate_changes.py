"""What becomes of state when an operator has other aggregates than its generation: which are new or gone, and rows with the new ones.

Groups that end, of windows and sessions, lack events of a new aggregate if they were open: it is NULL in their rows. Totals, which
never end, count it from the move on. Events that state has as they are count in it anyway.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from keyfold.keyed.generation.generation_record import GenerationRecord
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.state import StoredAggregates
from keyfold.keyed.rows.codec import polars_schema

_FROM_HERE_ON = "it counts from here on; rows that are written have NULL"
_NOT_OF_OPEN = f"{_FROM_HERE_ON}, and so have those of groups that are open now, which lack its earlier events"
_AT_ONCE = "state has its events; rows that are written have NULL"


@dataclass(frozen=True)
class AggregateChanges:
    """The aggregates that a job has otherwise than its generation.

    Attributes:
        stored: what state keeps of those that the job has.
        new: the aggregates that are new.
        gone: the aggregates that the job lacks.
        gone_columns: the columns of state, and of events, that only these had.
    """

    stored: StoredAggregates
    new: tuple[str, ...]
    gone: tuple[str, ...]
    gone_columns: frozenset[str]

    def why_new(self, name: str) -> str:
        """Say from when on a new one counts, in a line."""
        if not self.stored.parts[name]:
            return _AT_ONCE
        return _NOT_OF_OPEN if self.stored.incomplete else _FROM_HERE_ON

    def is_order(self, column: str) -> bool:
        """Whether a column of state orders simultaneous events for first and last values: by the columns that aggregates read."""
        return column in self.stored.order

    @property
    def new_columns(self) -> dict[str, pl.Expr]:
        """The columns of state that only new ones have, with their values in rows without events."""
        parts = self.stored.parts
        of_others = {column for name in parts if name not in self.new for column in parts[name]}
        return {column: value for name in self.new for column, value in parts[name].items() if column not in of_others}

    def converted(self, rows: pl.DataFrame, job: KeyedJob) -> pl.DataFrame:
        """Return rows of the generation's state in the columns of the job's, where those of new aggregates have no events."""
        kinds, of_rows = polars_schema(job.state.schema), self.stored.rows
        rows = rows.with_columns(
            pl.when(of_rows).then(value).otherwise(None).alias(column) for column, value in self.new_columns.items()
        )
        rows = rows.with_columns(
            _as_struct(pl.col(name), kind, rows.schema[name]).alias(name)
            for name, kind in kinds.items()
            if isinstance(kind, pl.Struct) and rows.schema.get(name, kind) != kind
        )
        # What is made of a list would be one row of a frame that has none.
        if self.stored.incomplete and rows.height:
            rows = rows.with_columns(pl.when(of_rows).then(self._lacking).alias(self.stored.incomplete))
        return rows

    @property
    def _lacking(self) -> pl.Expr:
        new = [name for name in self.new if self.stored.parts[name]]
        lacking = pl.col(self.stored.incomplete).fill_null([]).list.set_union(new).list.sort()
        return pl.when(lacking.list.len() > 0).then(lacking)


def aggregate_changes(job: KeyedJob, record: GenerationRecord) -> AggregateChanges | None:
    """Return how the aggregates of a job differ from those of its generation; None of a job without."""
    stored, before = job.state.aggregates, record.declaration.state.aggregates
    if stored is None:
        return None
    columns: Mapping[str, tuple[str, ...]] = before or {}
    new = tuple(name for name in stored.parts if name not in columns)
    gone = tuple(name for name in columns if name not in stored.parts)
    of_others = {column for name in columns if name not in gone for column in columns[name]}
    return AggregateChanges(
        stored, new, gone, frozenset(column for name in gone for column in columns[name]) - of_others
    )


def _as_struct(value: pl.Expr, kind: pl.Struct, before: pl.DataType) -> pl.Expr:
    """Return structs with other fields: those that are new are NULL."""
    fields = {field.name for field in before.fields} if isinstance(before, pl.Struct) else set[str]()
    parts = [
        (value.struct.field(field.name) if field.name in fields else pl.lit(None, field.dtype)).alias(field.name)
        for field in kind.fields
    ]
    return pl.when(value.is_not_null()).then(pl.struct(parts))
