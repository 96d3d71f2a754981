"""Aggregate consecutive events of a key, in order, of which the first row may stand for several events already."""

from collections.abc import Collection, Mapping

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types

from keyfold.errors import Misconfigured
from keyfold.keyed.job.inputs import Input
from keyfold.keyed.rows.exact_sums import fitted, units
from keyfold.operators.aggregation.aggregates import Aggregate, value_type
from keyfold.operators.aggregation.inference import OutputColumns
from keyfold.operators.ordering import in_order
from keyfold.operators.stepping import optional, tie_columns
from keyfold.schemas import arrow_type, field_of

Rows = NDArray[np.intp]


def span_columns(
    job: str,
    of: Mapping[str, Aggregate],
    source: Input,
    key: tuple[str, ...],
    output_columns: OutputColumns,
    table: pa.Schema,
) -> list[pa.Field]:
    """Return the columns of a row that is an event or stands for several: the key, the aggregates, and those of the last event.

    Raises:
        Misconfigured: a value is of a column that events lack, or has the name of one that they have; or a sum is not of whole numbers or decimals.
    """
    events, output, found = source.schema, output_columns.aggregates_in(table), list[pa.Field]()
    for name, one in of.items():
        where, kind = f"job {job}: {name}", pa.int64()
        for root in one.value.meta.root_names():
            field_of(where, root, events)
        if one.joined in ("first", "min", "max", "sum") and not one.counts:
            kind = arrow_type(value_type(where, name, one, source, output))
        if one.joined == "sum":
            kind = sum_type(where, kind)
        if one.joined != "last":
            if name in events.names:
                raise Misconfigured(
                    f"{where}: events have a column of this name, which state keeps too; name it otherwise"
                )
            found.append(pa.field(name, kind))
    return [*map(events.field, key), *found, *optional(events, key)]


def sum_type(where: str, kind: pa.DataType) -> pa.DataType:
    """Return the type of an exact sum of such values.

    Raises:
        Misconfigured: they are no whole numbers and no decimals.
    """
    if types.is_decimal(kind):
        return pa.decimal128(38, kind.scale)
    if not types.is_integer(kind):
        raise Misconfigured(f"{where} is a sum of {kind}; here sums are of whole numbers and decimals, such as cents")
    return pa.int64()


def count_and_start(job: str, of: Mapping[str, Aggregate], event_time: str) -> tuple[str, str]:
    """Return the columns of the count and of the first event time.

    Raises:
        Misconfigured: there is not one of each.
    """
    counts = [column for column, one in of.items() if one.counts]
    starts = [column for column, one in of.items() if one.joined == "first" and one.column == event_time]
    if len(counts) != 1 or len(starts) != 1:
        raise Misconfigured(f"job {job}: sessions need one count, and one first({event_time!r})")
    return counts[0], starts[0]


class Spans:
    """Rows of state and batch in order of key and time, of which spans are aggregated.

    Args:
        of: the aggregates by column, with one count.
        state: the rows. A single event has no value in `start`; a row that stands for several is the first of its key.
        key: the key columns.
        event_time: the column of event time, by which rows are ordered; ties by all other columns of events.
        events: columns of the events.
        start: the column with the first event time.

    Attributes:
        ordered: the rows in order, with the columns of the events.
    """

    def __init__(
        self,
        of: Mapping[str, Aggregate],
        state: pl.DataFrame,
        key: tuple[str, ...],
        event_time: str,
        events: pa.Schema,
        start: str,
    ) -> None:
        self._of, self._state, self._start = of, state, start
        (self._counted,) = (column for column, one in of.items() if one.counts)
        # Few rows have aggregates, so those columns are not put in order.
        narrow = state.select(*events.names, start, self._counted).with_row_index("#at")
        self.ordered = in_order(narrow, key, event_time, tie_columns(events, key, event_time))
        self._rows, self._at = self.ordered.events, self.ordered.events["#at"]
        self._counts = self._rows[self._counted].to_numpy()
        self._counts_until = np.cumsum(self._counts)
        self._grouped = {
            column: one for column, one in of.items() if one.joined in (*_SUMS, "min", "max") and not one.counts
        }
        names = dict.fromkeys(
            [start, *(name for one in self._grouped.values() for name in one.value.meta.root_names())]
        )
        self._values = self._rows.select(list(names))

    def whole(self, rows: Rows) -> pl.DataFrame:
        """Return rows with all columns of state."""
        return self._state[self._at.gather(rows)]

    def aggregates(
        self, first: Rows, last: Rows, counted_to: Rows | None = None, only: Collection[str] | None = None
    ) -> dict[str, pl.Series]:
        """Return the aggregates other than `last` of the rows from each first to its last.

        Args:
            first, last: the rows.
            counted_to: the last row that counts; by default `last`.
            only: the aggregates to compute; by default all.
        """
        to = last if counted_to is None else counted_to
        begins = self.whole(first)
        is_event = begins[self._start].is_null()
        values = begins.select(
            **{
                column: pl.when(is_event).then(one.value).otherwise(pl.col(column))
                for column, one in self._of.items()
                if one.joined == "first"
            }
        ).to_dict()
        values[self._counted] = pl.Series(self._counts_until[to] - self._counts_until[first] + self._counts[first])
        grouping = {column: one for column, one in self._grouped.items() if only is None or column in only}
        return values | self._of_groups(first, last, grouping, begins)

    def last_known(self, one: Aggregate, first: Rows, last: Rows) -> pl.Series:
        """Return the last row of each span whose value is known; -1 if none is."""
        is_known = self._rows.select(one.value.is_not_null()).to_series().to_numpy()
        known = np.maximum.accumulate(np.where(is_known, np.arange(is_known.size), -1))[last]
        return pl.Series(np.where(known >= first, known, -1))

    def lasts(self, last: Rows) -> dict[str, pl.Series]:
        """Return the aggregates `last`, of spans that end at these rows."""
        return (
            self._rows[last].select(**{c: one.value for c, one in self._of.items() if one.joined == "last"}).to_dict()
        )

    def _of_groups(
        self, first: Rows, last: Rows, of: Mapping[str, Aggregate], begins: pl.DataFrame
    ) -> dict[str, pl.Series]:
        if not (of and first.size):
            return {name: begins[name] for name in of}
        span, rows = ranges(first, last)
        here, is_first = self._values[rows], np.append(True, np.diff(span) > 0)[: span.size]
        is_event, follows = pl.col(self._start).is_null(), pl.Series(~is_first)
        of_rows = {}
        for column, one in of.items():
            value = one.value
            if one.joined == "falls":
                value = pl.lit(_falls(here.select(value).to_series(), np.flatnonzero(is_first), span))
            value = units(value) if one.joined in _SUMS else value
            # Only the first row of a span may stand for several events; nothing is between it and what was before.
            of_rows[column] = pl.when(follows if one.joined in _OF_TWO else is_event).then(value)
        found = (
            here.select(pl.Series("#span", span), **of_rows)
            .group_by("#span", maintain_order=True)
            .agg(
                # NULL if no event has a value.
                pl.when(pl.col(name).count() > 0).then(getattr(pl.col(name), _joined(one))())
                for name, one in of.items()
            )
        )
        values = dict[str, pl.Series]()
        for name, one in of.items():
            known = pl.lit(begins[name])
            pair = [pl.col(name), units(known) if one.joined in _SUMS else known]
            is_known = pl.any_horizontal(value.is_not_null() for value in pair)
            both = found.select(pl.when(is_known).then(_HORIZONTAL[_joined(one)](pair)).alias(name)).to_series()
            if one.joined == "between":
                both = both.fill_null(0)
            if one.joined == "falls":
                both = both.fill_null(0).set(self.last_known(one, first, last) < 0, None)
            values[name] = fitted(both, begins[name].dtype) if one.joined in _SUMS else both
        return values


_OF_TWO = ("between", "falls")
_SUMS = ("sum", *_OF_TWO)
_HORIZONTAL = {"sum": pl.sum_horizontal, "min": pl.min_horizontal, "max": pl.max_horizontal}


def _joined(one: Aggregate) -> str:
    return "sum" if one.joined in _SUMS else one.joined


def _falls(values: pl.Series, starts: Rows, place: Rows) -> pl.Series:
    """Return how far each value is below the last known one of its span; 0 if it is not, or one of them is NULL."""
    is_known, index = values.is_not_null().to_numpy(), np.arange(values.len())
    known, level = np.maximum.accumulate(np.where(is_known, index, -1)), values.fill_null(0).to_numpy()
    before = np.append(-1, known[:-1])
    # Values are not negative, so that no difference overflows.
    return pl.Series(np.where(is_known & (before >= starts[place]), np.maximum(level[before] - level, 0), 0))


def ranges(first: Rows, last: Rows) -> tuple[Rows, Rows]:
    """Return the number of the range of each, and all rows from each first to its last."""
    lengths = last - first + 1
    place = np.repeat(np.arange(first.size), lengths)
    return place, np.arange(place.size) + (first - (np.cumsum(lengths) - lengths))[place]
