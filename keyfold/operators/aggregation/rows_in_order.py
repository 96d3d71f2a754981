"""Aggregates of operators that take the events of keys in order: their parts in state, and of ranges of rows."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from keyfold.keyed.job.inputs import Input
from keyfold.keyed.job.state import StoredAggregates
from keyfold.keyed.rows.codec import empty
from keyfold.operators.aggregation.aggregates import IN_ORDER, Aggregate, require_known
from keyfold.operators.aggregation.float_limbs import scale_and_limbs
from keyfold.operators.aggregation.incomplete import Incomplete
from keyfold.operators.aggregation.inference import declared_parts
from keyfold.operators.aggregation.parts import Join, Naming
from keyfold.operators.aggregation.ranges import Rows, joined_ranges
from keyfold.schemas import field_of


class ListPart(NamedTuple):
    """The only part of an aggregate that keeps its values: its column, how it is joined, and how many values it may have."""

    column: str
    join: Join
    at_most: int


class AggregatesInOrder:
    """The aggregates of a job by column, whose parts are joined over ranges of rows in order.

    Args:
        job: the job's name.
        of: the aggregates by column.
        source: the input, whose columns they are of.
        output: the aggregates as the job's table declares them.
        taken: names of other columns of state and of events.
        has: the aggregates that the operator has.
        operator: its name, for errors.
        last_is_kept: whether a row of state that stands for several events has the columns of the last of them.

    Attributes:
        fields: the columns of their parts in state; NULL in a row that is one event.
        incomplete: the column of `state` that names those that lack events of a row.

    Raises:
        Misconfigured: the operator lacks an aggregate; or one does not fit its values, or is of a column that events lack.
    """

    def __init__(
        self,
        job: str,
        of: Mapping[str, Aggregate],
        source: Input,
        output: pa.Schema,
        taken: Iterable[str],
        *,
        operator: str,
        has: Collection[str] = IN_ORDER,
        last_is_kept: bool = True,
    ) -> None:
        require_known(job, of, has, operator)
        events = source.schema
        naming = Naming([*taken, *events.names], of)
        for name, aggregate in of.items():
            for root in aggregate.value.meta.root_names():
                field_of(f"job {job}: {name}", root, events)
        self.of, self._parts = of, declared_parts(job, of, events, source.event_time, naming, None, output)
        self.fields = [
            part.column
            for parts in self._parts.values()
            for part in parts.parts
            if not (last_is_kept and part.join == "last")
        ]
        self._stored = {field.name for field in self.fields}
        self.incomplete = Incomplete(naming)

    @property
    def state(self) -> list[pa.Field]:
        """Their columns in state, of groups that end."""
        return [*self.fields, self.incomplete.field]

    def stored(self, rows: pl.Expr, row_key: Sequence[str], *needed: str, groups_end: bool = True) -> StoredAggregates:
        """Return what state keeps of them.

        Args:
            rows: which rows of state stand for events; others are events.
            row_key: the columns that tell these rows apart.
            needed: aggregates without which no row of state is what it was.
            groups_end: whether groups end, and have the columns `state`.
        """
        parts = {
            name: {part.name: part.of_nothing for part in of.parts if part.name in self._stored}
            for name, of in self._parts.items()
            if name not in needed
        }
        return StoredAggregates(parts, self.incomplete.name if groups_end else "", rows, tuple(row_key))

    @property
    def lists(self) -> dict[str, ListPart]:
        """The aggregates that keep their values."""
        return {
            name: ListPart(parts.parts[0].name, parts.parts[0].join, parts.at_most)
            for name, parts in self._parts.items()
            if parts.of("set", "sorted", "list")
        }

    def column(self, aggregate: str) -> str:
        """The column of state of an aggregate that is its only part."""
        (part,) = self._parts[aggregate].parts
        return part.name

    def parts(self, rows: pl.DataFrame, is_event: NDArray[np.bool_]) -> pl.DataFrame:
        """Return the parts of rows in order: of an event what its values give, of another row what state has."""
        values = {part.name: part.value for parts in self._parts.values() for part in parts.parts}
        # What is of two events needs the values that are known of the earlier ones.
        levels = {name for parts in self._parts.values() for name in parts.of("last known")}
        in_order = {name: value for parts in self._parts.values() for name, value in parts.in_order.items()}
        if in_order:
            levels_of_events = self._or_stored({name: values[name] for name in levels}, is_event)
            rows = rows.with_columns(**levels_of_events).with_columns(**in_order)
        values = self._or_stored(values | self._limbs(rows), is_event) | {name: pl.col(name) for name in levels}
        values |= {name: pl.col(name) for name in self.incomplete.column_in(rows)}
        # A value that is a constant is one of each row.
        return rows.with_columns(**values).select(list(values))

    def _or_stored(self, values: Mapping[str, pl.Expr], is_event: NDArray[np.bool_]) -> dict[str, pl.Expr]:
        """Return the values of events, and of other rows what state has."""
        if is_event.all():
            return dict(values)
        event = pl.lit(pl.Series(is_event))
        return {
            name: pl.when(event).then(value).otherwise(pl.col(name)) if name in self._stored else value
            for name, value in values.items()
        }

    def _limbs(self, rows: pl.DataFrame) -> dict[str, pl.Expr]:
        """Return the parts of sums of floats, by NumPy, since they are most of the work of a moving average."""
        sums = {name: parts for name, parts in self._parts.items() if parts.floats is not None}
        floats = rows.with_columns(**{name: parts.floats for name, parts in sums.items()}) if sums else rows
        limbs = dict[str, pl.Expr]()
        for name, parts in sums.items():
            limbs |= zip(parts.of("scale", "limb"), map(pl.lit, scale_and_limbs(floats[name])), strict=True)
        return limbs

    def joined(
        self,
        parts: pl.DataFrame,
        is_event: NDArray[np.bool_],
        first: Rows,
        last: Rows,
        counted_to: Rows | None = None,
        only: Collection[str] | None = None,
    ) -> pl.DataFrame:
        """Join the parts of the rows from each first to its last.

        Args:
            parts, is_event: as of `parts`.
            first, last: the rows.
            counted_to: the last row that counts; by default `last`.
            only: the aggregates to join; by default all.

        Raises:
            TotalTooLargeError: a sum overflows its column.
            TooManyValuesError: a range has more values than are kept.
        """
        joined = dict[str, pl.Series]()
        if not first.size:
            wanted = [of for name, of in self._parts.items() if only is None or name in only]
            return empty(pa.schema([part.column for of in wanted for part in of.parts]))
        for name, of in self._parts.items():
            if only is None or name in only:
                to = counted_to if counted_to is not None and self.of[name].counts else last
                joined |= joined_ranges(of, parts, is_event, first, to)
        # Only the first row of a range stands for several events.
        joined |= {name: parts[name].gather(first) for name in self.incomplete.column_in(parts)}
        frame = pl.DataFrame(joined)
        for name, of in self._parts.items():
            if only is None or name in only:
                of.check(name, frame)
        return frame

    def finished(self, parts: pl.DataFrame) -> pl.DataFrame:
        """Return the aggregates, as far as there are their parts."""
        columns, results = {*parts.columns}, {name: of.result for name, of in self._parts.items()}
        there = {name: result for name, result in results.items() if columns.issuperset(result.meta.root_names())}
        return parts.select(**self.incomplete.without_partial(parts, there))
