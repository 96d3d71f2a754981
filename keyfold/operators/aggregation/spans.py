"""Aggregate consecutive events of a key, in order, of which the first row may stand for several events already."""

from collections.abc import Collection, Mapping

import polars as pl
import pyarrow as pa

from keyfold.errors import Misconfigured
from keyfold.operators.aggregation.aggregates import Aggregate
from keyfold.operators.aggregation.ranges import Rows
from keyfold.operators.aggregation.rows_in_order import AggregatesInOrder
from keyfold.operators.ordering import in_order
from keyfold.operators.stepping import optional, tie_columns


def span_columns(aggregates: AggregatesInOrder, events: pa.Schema, key: tuple[str, ...]) -> list[pa.Field]:
    """Return the columns of a row that is an event or stands for several: the key, the aggregates, and those of the last event."""
    return [*map(events.field, key), *aggregates.fields, *optional(events, key)]


def count_and_start(job: str, of: Mapping[str, Aggregate], event_time: str) -> tuple[str, str]:
    """Return the aggregates that are the count and the first event time.

    Raises:
        Misconfigured: there is not one of each.
    """
    counts = [column for column, one in of.items() if one.counts]
    starts = [column for column, one in of.items() if one.kind == "first" and one.column == event_time]
    if len(counts) != 1 or len(starts) != 1:
        raise Misconfigured(f"job {job}: sessions need one count, and one first({event_time!r})")
    return counts[0], starts[0]


class Spans:
    """Rows of state and batch in order of key and time, of which spans are aggregated.

    Args:
        aggregates: the aggregates.
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
        aggregates: AggregatesInOrder,
        state: pl.DataFrame,
        key: tuple[str, ...],
        event_time: str,
        events: pa.Schema,
        start: str,
    ) -> None:
        self._aggregates, self._state = aggregates, state
        # Few rows have aggregates, so those columns are not put in order.
        narrow = state.select(*events.names, start).with_row_index("#at")
        self.ordered = in_order(narrow, key, event_time, tie_columns(events, key, event_time))
        self._rows = self.ordered.events
        self._is_event = self._rows[start].is_null().to_numpy()
        rows = self._rows
        if not self._is_event.all():
            stored = state.select(field.name for field in aggregates.fields)
            rows = rows.with_columns(stored[rows["#at"]])
        self._parts = aggregates.parts(rows, self._is_event)

    def whole(self, rows: Rows) -> pl.DataFrame:
        """Return rows with all columns of state."""
        return self._state[self._rows["#at"][rows]]

    def joined(
        self, first: Rows, last: Rows, counted_to: Rows | None = None, only: Collection[str] | None = None
    ) -> pl.DataFrame:
        """Return the parts of the aggregates of the rows from each first to its last (`AggregatesInOrder.joined`)."""
        return self._aggregates.joined(self._parts, self._is_event, first, last, counted_to, only)

    def aggregates(
        self, first: Rows, last: Rows, counted_to: Rows | None = None, only: Collection[str] | None = None
    ) -> pl.DataFrame:
        """Return the aggregates of the rows from each first to its last."""
        return self._aggregates.finished(self.joined(first, last, counted_to, only))
