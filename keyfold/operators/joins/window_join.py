"""Window join: join events of two inputs with the same key in the same window of event time, when the window ends."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, get_args

import polars as pl

from keyfold.errors import Misconfigured
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import EVENT_TIME
from keyfold.keyed.job.step import DEADLINE, Clock, Step
from keyfold.operators.joins.sides import How, Semi, Side, Sides, sides_of, uncounted_join
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
        raise Misconfigured(f"job {name}: length is {length}; it must be longer than nothing")
    sides = sides_of(name, key, left, right, how, (*get_args(How), *get_args(Semi)))
    return uncounted_join(name, sides, partial(_join, sides, length, how), settings)


def _join(
    sides: Sides,
    length: timedelta,
    how: How | Semi,
    state: pl.DataFrame,
    events: Mapping[str, pl.DataFrame],
    clock: Clock,
) -> Step:
    came, late = sides.late(sides.came(events), clock)
    # The deadline is the window's end, so it also identifies the window: rows are joined on it.
    end = (pl.col(EVENT_TIME).dt.truncate(length) + length).alias(DEADLINE)
    waiting = pl.concat([state, came.with_columns(end)])
    is_over = pl.col(DEADLINE) <= clock.watermark
    over = waiting.filter(is_over)
    left, right = (sides.side(over, side).with_row_index("#row") for side in (sides.left, sides.right))
    on = [*sides.key, DEADLINE]
    if how == "semi":
        matched = sides.rows_of(sides.left, left.join(right, on=on, how="semi"))
        return Step(state=waiting.filter(~is_over), output=matched, late=late)
    pairs = left.select("#row", *on).join(right.select(*on, pl.col("#row").alias("#other")), on=on)
    missed = pl.concat([left.join(right, on=on, how="anti"), right.join(left, on=on, how="anti")])
    matched = sides.pairs(left[pairs["#row"].to_numpy()], right[pairs["#other"].to_numpy()])
    return Step(state=waiting.filter(~is_over), output=pl.concat([matched, *sides.misses(missed, how)]), late=late)
