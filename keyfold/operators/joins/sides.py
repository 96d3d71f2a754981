"""Define the two sides of a join: their columns in its output, and their rows in its state."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import polars as pl
import pyarrow as pa

from keyfold.errors import Misconfigured
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.event_frames import joined_schema, tagged
from keyfold.keyed.job.inputs import EVENT_TIME, INPUT, Input
from keyfold.keyed.job.step import DEADLINE, Clock, StepOfInputs
from keyfold.keyed.rows.codec import polars_schema
from keyfold.stream import TIMESTAMP

How = Literal["inner", "left", "outer"]
"""The rows that a join writes besides matches: none, left rows without a match, or such rows of both sides."""

Semi = Literal["semi"]
"""A join that writes each left row with a match once, in place of the pairs."""

Named = tuple[str, Input]
"""An input of a join, with its name."""


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

    def came(self, events: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
        """Return new events of both sides as rows of state without a match."""
        kinds = polars_schema(joined_schema(self.key, self.inputs))
        rows = [tagged(name, one, events[name], kinds) for name, one in self.inputs.items()]
        return pl.concat(rows).with_columns(matched=pl.lit(value=False))

    def side(self, rows: pl.DataFrame, side: Named) -> pl.DataFrame:
        """Return the rows of one side."""
        return rows.filter(pl.col(INPUT) == side[0])

    def late(self, came: pl.DataFrame, clock: Clock) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Separate rows that are on time from late ones, which are returned in the columns of the late table."""
        is_late = pl.col(EVENT_TIME) <= clock.previous_watermark
        return came.filter(~is_late), came.filter(is_late).drop("matched")

    def pairs(self, left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
        """Return output rows: left and right rows side by side."""
        return self._in_output(
            left.select(*self.key, *self._columns(self.left)).hstack(right.select(self._columns(self.right)))
        )

    def misses(self, rows: pl.DataFrame, how: How) -> list[pl.DataFrame]:
        """Return output rows for rows without a match, of the sides for which the join writes them."""
        written = {"inner": (), "left": (self.left,), "outer": (self.left, self.right)}[how]
        return [self.rows_of(one, self.side(rows, one)) for one in written]

    def rows_of(self, side: Named, rows: pl.DataFrame) -> pl.DataFrame:
        """Return output rows for rows of one side, with NULL in the columns of the other."""
        return self._in_output(rows.select(*self.key, *self._columns(side)))

    def _in_output(self, rows: pl.DataFrame) -> pl.DataFrame:
        kinds = polars_schema(self.output)
        return rows.select(
            (pl.col(name) if name in rows.columns else pl.lit(None, kind)).alias(name) for name, kind in kinds.items()
        )

    def _columns(self, side: Named) -> list[pl.Expr]:
        _, one = side
        return [
            (pl.col(EVENT_TIME).alias(name) if name == one.event_time else pl.col(name))
            for name in one.events.names
            if name not in self.key
        ]


def sides_of(job: str, key: tuple[str, ...], left: Named, right: Named, how: How | Semi) -> Sides:
    """Make the sides of a join.

    Raises:
        Misconfigured: they have the same name, or both have a column that is not in the key.
    """
    if left[0] == right[0]:
        raise Misconfigured(f"job {job}: both sides are called {left[0]}; give each a name of its own")
    # A semi join writes no column of the right side.
    of_right = [] if how == "semi" else [field for field in right[1].events if field.name not in key]
    if both := [field.name for field in of_right if field.name in left[1].events.names]:
        raise Misconfigured(
            f"job {job}: both {left[0]} and {right[0]} have {', '.join(both)}; rename it on one side with `derived`, or leave "
            "it out of `events`"
        )
    fields = [left[1].events.field(name) for name in key]
    fields += [_of_output(field, may_miss=how == "outer") for field in left[1].events if field.name not in key]
    fields += [_of_output(field, may_miss=how != "inner") for field in of_right]
    waiting = joined_schema(key, dict((left, right)))
    state = waiting.append(pa.field("matched", pa.bool_(), nullable=False)).append(pa.field(DEADLINE, TIMESTAMP))
    return Sides(key, left, right, pa.schema(fields), state)


def uncounted_join(name: str, sides: Sides, step: StepOfInputs, settings: Mapping[str, Any]) -> KeyedJob:
    """Make the job of a join whose rows may match any number of others, so that events cannot be counted by output rows."""
    inputs = {side: replace(one, conserved=False) for side, one in sides.inputs.items()}
    more: dict[str, Any] = {"output_events": pl.lit(0), "state_events": pl.lit(0), "step_decides_late": True}
    return KeyedJob.with_inputs(name, inputs, sides.key, sides.state, sides.output, step, **{**more, **settings})


def _of_output(field: pa.Field, *, may_miss: bool) -> pa.Field:
    return field.with_nullable(True) if may_miss else field
