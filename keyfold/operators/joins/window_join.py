"""Window join: join events of two inputs with the same key in the same window of event time, when the window ends."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import polars as pl

from keyfold.errors import Misconfigured
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import EVENT_TIME
from keyfold.keyed.job.row_times import RowTimes
from keyfold.keyed.job.step import DEADLINE, Clock
from keyfold.operators.aggregation.window_shapes import Spans
from keyfold.operators.joins.sides import How, Semi, Side, sides_of
from keyfold.operators.joins.two_inputs import Matches, join_job
from keyfold.operators.signatures import operator
from keyfold.times import as_duration


@operator()
def window_join(
    name: str,
    left: Side,
    right: Side,
    key: str | Sequence[str],
    *,
    length: timedelta | str,
    how: How | Semi = "inner",
    **settings: Any,
) -> KeyedJob:
    """Make a job that joins all left and right rows of a key in the same window. Windows are consecutive, and aligned to 1970.

    Rows are written when the watermark has passed the window's end, with and without a match. A row at or behind the watermark
    at the start of the run is late.

    Args:
        name, left, right, key, settings: as for `interval_join`.
        length: length of a window.
        how: `inner`, `left` or `outer`, as in `interval_join`; or `semi`: each left row that has a match, once.

    Raises:
        Misconfigured: `length` is not positive, or the inputs do not fit together.
    """
    length = as_duration(f"job {name}: length", length)
    if length <= timedelta(0):
        raise Misconfigured(f"job {name}: length is {length}; it must be positive, such as 1h")
    sides = sides_of(name, key, left, right, how)
    of_event, of_row = (time.dt.truncate(length) for time in (pl.col(EVENT_TIME), sides.time(how)))
    times = RowTimes(of_row, of_event, of_event, periods=Spans(length, length))
    return join_job(name, sides, how, partial(_matches, sides.key, length, how), settings, times)


def _matches(
    key: tuple[str, ...],
    length: timedelta,
    how: How | Semi,
    left: pl.DataFrame,
    right: pl.DataFrame,
    clock: Clock,
) -> Matches:
    """Match the rows of windows that have ended. The end of a row's window, until which it waits, also tells windows apart."""
    end, on = (pl.col(EVENT_TIME).dt.truncate(length) + length).alias(DEADLINE), [*key, DEADLINE]
    left, right = left.with_columns(end), right.with_columns(end)
    rows = (side.with_row_index(number) for side, number in ((left, "#left"), (right, "#right")))
    over_left, over_right = (
        side.filter(pl.col(DEADLINE) <= clock.watermark).select(*on, pl.col("^#(left|right)$")) for side in rows
    )
    if how == "semi":
        over_right = over_right.unique(on)
    pairs = over_left.join(over_right, on=on, suffix="#other")
    return Matches(left, right, pairs["#left"].to_numpy(), pairs["#right"].to_numpy())
