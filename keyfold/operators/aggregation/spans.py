"""Aggregate consecutive events of a key, in order, of which the first row may stand for several events already."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types

from keyfold.errors import Misconfigured
from keyfold.keyed.rows.codec import polars_schema
from keyfold.keyed.rows.exact_sums import in_int64, sums_from
from keyfold.operators.aggregation.aggregates import Aggregate
from keyfold.operators.ordering import in_order
from keyfold.schemas import arrow_type, field_of, type_of

Rows = NDArray[np.intp]


def kept_fields(job: str, of: Mapping[str, Aggregate], events: pa.Schema) -> list[pa.Field]:
    """Return the columns of the aggregates in a row that stands for several events; its event columns are of the last event.

    Raises:
        Misconfigured: a value is of a column that events lack, or a sum is not of whole numbers.
    """
    found = list[pa.Field]()
    for name, one in of.items():
        kind = pa.int64()
        if one.column:
            kind = field_of(f"job {job}: {name}", one.column, events).type
        elif one.joined in ("first", "min", "max"):
            kind = arrow_type(type_of(one.value, polars_schema(events)))
        if one.joined == "sum" and not types.is_integer(kind):
            raise Misconfigured(f"job {job}: {name} is a sum of {kind}; here sums are of whole numbers, such as cents")
        if one.joined != "last":
            found.append(pa.field(name, kind if one.joined in ("first", "min", "max") else pa.int64()))
    return found


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
        key: the key columns; errors show the first.
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
        events: Sequence[str],
        start: str,
    ) -> None:
        self._of, self._state, self._key, self._start = of, state, key[0], start
        (self._counted,) = (column for column, one in of.items() if one.counts)
        # Few rows have aggregates, so those columns are not put in order.
        narrow = state.select(*events, start, self._counted).with_row_index("#at")
        self.ordered = in_order(narrow, key, event_time, [one for one in events if one not in (*key, event_time)])
        self._rows, self._at = self.ordered.events, self.ordered.events["#at"]
        self._counts = self._rows[self._counted].to_numpy()
        self._counts_until = np.cumsum(self._counts)
        self._summed = {column: one for column, one in of.items() if one.joined in ("between", "falls")}
        self._grouped = {
            column: one for column, one in of.items() if one.joined in ("sum", "min", "max") and not one.counts
        }
        used = [*self._summed.values(), *self._grouped.values()]
        names = dict.fromkeys([start, *(name for one in used for name in one.value.meta.root_names())])
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
        summing, grouping = (
            {column: one for column, one in some.items() if only is None or column in only}
            for some in (self._summed, self._grouped)
        )
        if not (summing or grouping):
            return values
        longer = last > first
        place, rows = ranges(first[longer], last[longer])
        lengths, summed = (last - first + 1)[longer], np.flatnonzero(longer)
        starts, here = np.cumsum(lengths) - lengths, self._values[rows]
        for column, one in summing.items():
            # Only the first row of a span contains a sum.
            total = begins[column].fill_null(0).cast(pl.Int128)
            if rows.size:
                legs = here.select(one.value).to_series()
                legs = _falls(legs, starts, place) if one.joined == "falls" else legs.fill_null(0).to_numpy().copy()
                legs[starts] = 0
                total = total.scatter(summed, total.gather(summed) + sums_from(starts, legs))
            values[column] = pl.Series(in_int64(total, column, begins[self._key]))
            if one.joined == "falls":
                values[column] = values[column].set(self.last_known(one, first, last) < 0, None)
        return values | self._groups(first, last, grouping, begins)

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

    def _groups(
        self, first: Rows, last: Rows, grouping: Mapping[str, Aggregate], begins: pl.DataFrame
    ) -> dict[str, pl.Series]:
        if not grouping:
            return {}
        span, rows = ranges(first, last)
        is_event = pl.col(self._start).is_null()
        of_events = {column: pl.when(is_event).then(one.value) for column, one in grouping.items()}
        grouped = (
            self._values[rows].select(pl.Series("#span", span), **of_events).group_by("#span", maintain_order=True)
        )
        # NULL if no event has a value.
        found = grouped.agg(
            **{
                column: pl.when(pl.col(column).count() > 0).then(getattr(pl.col(column), one.joined)())
                for column, one in grouping.items()
            }
        )
        # With what the first row stands for.
        joined = {"sum": pl.sum_horizontal, "min": pl.min_horizontal, "max": pl.max_horizontal}
        both = {column: (pl.col(column), pl.lit(begins[column])) for column in grouping}
        is_known = {column: pl.any_horizontal(one.is_not_null() for one in pair) for column, pair in both.items()}
        return found.select(
            **{
                column: pl.when(is_known[column]).then(joined[grouping[column].joined](pair))
                for column, pair in both.items()
            }
        ).to_dict()


def _falls(values: pl.Series, starts: Rows, place: Rows) -> NDArray[np.int64]:
    """Return how far each value is below the last known one of its span; 0 if it is not, or one of them is NULL."""
    is_known, index = values.is_not_null().to_numpy(), np.arange(values.len())
    known, level = np.maximum.accumulate(np.where(is_known, index, -1)), values.fill_null(0).to_numpy()
    before = np.append(-1, known[:-1])
    # Values are not negative, so that no difference overflows.
    return np.where(is_known & (before >= starts[place]), np.maximum(level[before] - level, 0), 0)


def ranges(first: Rows, last: Rows) -> tuple[Rows, Rows]:
    """Return the number of the range of each, and all rows from each first to its last."""
    lengths = last - first + 1
    place = np.repeat(np.arange(first.size), lengths)
    return place, np.arange(place.size) + (first - (np.cumsum(lengths) - lengths))[place]
