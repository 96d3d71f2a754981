"""Define the two sides of a join: their columns in its output, and their rows in its state (`two_inputs` joins them)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import polars as pl
import pyarrow as pa

from keyfold.errors import Misconfigured
from keyfold.keyed.job.event_frames import joined_schema, tagged
from keyfold.keyed.job.inputs import EVENT_TIME, INPUT, Input, Source, as_input
from keyfold.keyed.job.step import DEADLINE
from keyfold.keyed.rows.codec import polars_schema
from keyfold.schemas import field_of, names_of
from keyfold.stream import INGESTED_AT, TIMESTAMP, Stream

How = Literal["inner", "left", "outer"]
"""The rows that a join writes besides matches: none, left rows without a match, or such rows of both sides."""

Semi = Literal["semi"]
"""A join that writes each left row with a match once, in place of the pairs."""

Named = tuple[str, Input]
"""An input of a join, with its name."""

Side = Source | tuple[str, Source]
"""What a side of a join is declared as: an input, which has the name of its stream, or a name and an input."""


@dataclass(frozen=True)
class Sides:
    """Two inputs of a join.

    Attributes:
        key: columns of the join.
        left, right: the inputs with their names.
        output: columns of the join: the key, other columns of the left side, other columns of the right side.
        state: columns of state: those of both sides in one frame, `matched` and `deadline`.
    """

    key: tuple[str, ...]
    left: Named
    right: Named
    output: pa.Schema
    state: pa.Schema

    @property
    def inputs(self) -> dict[str, Input]:
        """The inputs by name."""
        return dict((self.left, self.right))

    def rows_of_events(self, events: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
        """Return new events of both sides as rows of state without a match."""
        types = polars_schema(joined_schema(self.key, self.inputs))
        rows = [tagged(self.inputs, name, events[name], types) for name in self.inputs]
        return pl.concat(rows).with_columns(matched=pl.lit(value=False))

    def time(self, how: How | Semi) -> pl.Expr:
        """Return the event time of rows of the join: that of the left row, or of a right row without a match."""
        sides = (self.left, self.right) if how == "outer" else (self.left,)
        return pl.coalesce(pl.col(input_.event_time) for _, input_ in sides)

    def side(self, rows: pl.DataFrame, side: Named) -> pl.DataFrame:
        """Return the rows of one side."""
        return rows.filter(pl.col(INPUT) == side[0])

    def pairs(self, left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
        """Return output rows: left and right rows side by side."""
        return self._in_output(
            left.select(*self.key, *self._columns(self.left)).hstack(right.select(self._columns(self.right)))
        )

    def misses(self, rows: pl.DataFrame, how: How) -> list[pl.DataFrame]:
        """Return output rows for rows without a match, of the sides for which the join writes them."""
        written = {"inner": (), "left": (self.left,), "outer": (self.left, self.right)}[how]
        return [self.rows_of(side, self.side(rows, side)) for side in written]

    def rows_of(self, side: Named, rows: pl.DataFrame) -> pl.DataFrame:
        """Return output rows for rows of one side, with NULL in the columns of the other."""
        return self._in_output(rows.select(*self.key, *self._columns(side)))

    def _in_output(self, rows: pl.DataFrame) -> pl.DataFrame:
        types = polars_schema(self.output)
        return rows.select(
            (pl.col(name) if name in rows.columns else pl.lit(None, type_)).alias(name) for name, type_ in types.items()
        )

    def _columns(self, side: Named) -> list[pl.Expr]:
        _, input_ = side
        return [
            (pl.col(EVENT_TIME).alias(name) if name == input_.event_time else pl.col(name))
            for name in input_.schema.names
            if name not in self.key
        ]


def named(side: Side) -> Named:
    """Return a side of a join with its name."""
    if isinstance(side, tuple):
        return side[0], as_input(side[1])
    input_ = as_input(side)
    return input_.stream.name, input_


def sides_of(
    job: str,
    key: str | Sequence[str],
    first: Side,
    second: Side,
    how: How | Semi,
) -> Sides:
    """Make the sides of a join.

    The column `ingested_at` of a stream is in a join only where the input's `columns` name it.

    Raises:
        Misconfigured: they have the same name, one lacks a column of the key, or both have a column that is not in the key.
    """
    key, left, right = names_of(key), _without_arrival(named(first)), _without_arrival(named(second))
    for side, input_ in (left, right):
        for name in key:
            field_of(f"job {job}: key: input {side}", name, input_.schema)
    if left[0] == right[0]:
        raise Misconfigured(f"job {job}: both sides are called {left[0]}; give each a name of its own")
    # A semi join writes no column of the right side.
    of_right = [] if how == "semi" else [field for field in right[1].schema if field.name not in key]
    if both := [field.name for field in of_right if field.name in left[1].schema.names]:
        time = right[1].event_time
        renamed = f"`derive(other=pl.col({time!r}))` and at='other'" if time in both else "`derive`"
        raise Misconfigured(
            f"job {job}: both {left[0]} and {right[0]} have {', '.join(both)}; rename it on one side with {renamed}, and "
            "leave it out of `columns` there"
        )
    fields = [left[1].schema.field(name) for name in key]
    fields += [_of_output(field, may_miss=how == "outer") for field in left[1].schema if field.name not in key]
    fields += [_of_output(field, may_miss=how != "inner") for field in of_right]
    waiting = joined_schema(key, dict((left, right)))
    state = waiting.append(pa.field("matched", pa.bool_(), nullable=False)).append(pa.field(DEADLINE, TIMESTAMP))
    return Sides(key, left, right, pa.schema(fields), state)


def _without_arrival(side: Named) -> Named:
    """Leave out `ingested_at`, which Keyfold adds to each stream and both sides would have, unless the input asks for it."""
    name, input_ = side
    is_ours = isinstance(input_.stream, Stream) and INGESTED_AT not in (input_.event_time, *input_.refined.new_columns)
    if input_.columns is not None or not is_ours:
        return side
    return name, replace(input_, columns=[column for column in input_.schema.names if column != INGESTED_AT])


def _of_output(field: pa.Field, *, may_miss: bool) -> pa.Field:
    return field.with_nullable(True) if may_miss else field
