"""Which rows of a key `rows` keeps: the first, the last, or those with the highest values; and of which events each row stands for.

The rows of a key are put in order and cut into spans. One row of each span is kept, and stands for all events of the span.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import polars as pl
from pydantic import Field

from keyfold.keyed.job.step import Clock
from keyfold.keyed.job.timeouts import Timeout
from keyfold.operators.aggregation.cutting import Spans, after_silence, spans_from
from keyfold.operators.ordering import Ordered, in_order
from keyfold.schemas import to_names
from keyfold.times import micros, to_micros, to_silence
from keyfold.validation import argument, declaration, optional

IS_NEW = "#new"
"""Column of a step's frames: whether a row is an event that has not been written."""


class Columns(NamedTuple):
    """The columns of events: the key, the event time, and the others, which order simultaneous events."""

    key: tuple[str, ...]
    event_time: str
    others: Sequence[str]


@declaration("first")
class First:
    """Keep the first row of each key by event time, once and for all; rows that follow it are duplicates (`rows(keep=First())`).

    Attributes:
        expires: event time after which an event is a first one again, also as text (`"1d"`); by default never, with state for each
            key. Duplicates do not renew it.

    Raises:
        Misconfigured: `expires` is not positive.
    """

    expires: timedelta | None = argument(converter=optional(to_silence), default=None)

    waits: ClassVar[bool] = True
    counted: ClassVar[str] = "n_duplicates"
    ended: ClassVar[str] = "duplicates"

    def are_late(self, state: pl.DataFrame, events: pl.DataFrame, columns: Columns, clock: Clock) -> pl.Series:
        """Return whether events are behind the watermark, and repeat no row that has been written and has not expired."""
        is_late = events[columns.event_time] <= clock.previous_watermark
        if is_late.any():
            # A written row is in state for as long as an event behind the watermark can repeat it.
            written = state.filter(~pl.col(IS_NEW)).select(*columns.key, pl.col(columns.event_time).alias("#since"))
            since = events.join(written, on=columns.key, how="left", maintain_order="left")["#since"]
            is_late &= (since > events[columns.event_time]).fill_null(value=True)
        return is_late

    def spans(self, rows: pl.DataFrame, columns: Columns) -> Spans:
        """Cut rows at each that comes at least `expires` behind the first row of a span."""
        # The written row of a key comes before its simultaneous duplicates.
        ordered = in_order(rows, columns.key, columns.event_time, [IS_NEW, *columns.others])
        first = ordered.starts
        if self.expires is None or not first.size:
            return spans_from(ordered, ordered.begins_key)
        times, after = to_micros(ordered.events[columns.event_time]), micros(self.expires)
        begins, is_long = ordered.begins_key, times[ordered.lasts] - times[first] >= after
        several = np.flatnonzero(is_long[ordered.key_number])
        times, keys = times[several], ordered.key_number[several]
        # For each row, where the first of its key comes that is `after` behind it: all are sorted together.
        both = np.lexsort((np.repeat([1, 0], several.size), np.append(times, times + after), np.append(keys, keys)))
        following = np.empty(several.size, np.intp)
        following[both[both >= several.size] - several.size] = np.cumsum(both < several.size)[both >= several.size]
        here = np.searchsorted(several, first[is_long])
        # As often as the key with the most spans has some.
        while here.size:
            after_these = following[here]
            is_there = after_these < several.size
            is_there[is_there] = keys[after_these[is_there]] == keys[here[is_there]]
            here = after_these[is_there]
            begins[several[here]] = True
        return spans_from(ordered, begins)


@declaration("last")
class Last:
    """Keep the last row of each key by event time, and write it again when a later one has come (`rows(keep=Last())`).

    Attributes:
        expires: silence in event time after which a key leaves state, also as text (`"1d"`); by default never.

    Raises:
        Misconfigured: `expires` is not positive.
    """

    expires: timedelta | None = argument(converter=optional(to_silence), default=None)

    waits: ClassVar[bool] = False
    counted: ClassVar[str] = "n_events"
    ended: ClassVar[str] = "expired"

    def are_late(self, state: pl.DataFrame, events: pl.DataFrame, columns: Columns, clock: Clock) -> pl.Series | None:
        """Return whether events are so much behind the watermark that a newer row may have expired; None if none is late."""
        return None if self.expires is None else events[columns.event_time] + self.expires <= clock.previous_watermark

    def spans(self, rows: pl.DataFrame, columns: Columns) -> Spans:
        """Cut rows where their key was silent for longer than `expires`."""
        ordered = in_order(rows, columns.key, columns.event_time, columns.others)
        longest = None if self.expires is None else Timeout(self.expires)
        begins = after_silence(ordered, to_micros(ordered.events[columns.event_time]), longest)
        return spans_from(ordered, begins)


@declaration("highest")
class Highest:
    """Keep the rows of each key with the highest values, and write one again when its rank changes (`rows(keep=Highest("points"))`).

    Attributes:
        column: the column that ranks rows; never NULL.
        n: number of rows per key.
        ties: columns that rank rows with equal values, ascending; the remaining columns follow.

    Raises:
        Misconfigured: `n` is less than 1.

    Example:
        >>> Highest("points", n=3, ties="since").ties
        ('since',)
    """

    column: str
    n: Annotated[int, Field(ge=1)] = 1
    ties: tuple[str, ...] = argument(converter=to_names, default=())

    expires: ClassVar[timedelta | None] = None
    waits: ClassVar[bool] = False
    counted: ClassVar[str] = "n_events"
    ended: ClassVar[str] = ""

    def are_late(self, state: pl.DataFrame, events: pl.DataFrame, columns: Columns, clock: Clock) -> None:
        """Return that no event is late."""

    def spans(self, rows: pl.DataFrame, columns: Columns) -> Spans:
        """Make each of the highest rows a span, of which the last goes on to the lowest row of the key."""
        ranked = (self.column, *self.ties)
        others = [name for name in (columns.event_time, *columns.others) if name not in ranked]
        order = [*columns.key, *ranked, *others]
        descending: list[Any] = [name == self.column for name in order]
        ordered = rows[rows.select(pl.arg_sort_by(order, descending=descending)).to_series()]
        is_first = ordered.select(pl.struct(columns.key).ne_missing(pl.struct(columns.key).shift())).to_series()
        starts = np.flatnonzero(is_first.to_numpy())
        number = np.cumsum(is_first.to_numpy()) - 1
        place = np.arange(ordered.height) - starts[number]
        return spans_from(Ordered(ordered, starts, number), place < self.n)


Choice = First | Last | Highest
"""Which rows of a key are kept."""
