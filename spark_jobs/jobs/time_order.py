"""Events key by key in the order of their time, and the same order whatever order they came in."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl


class InTimeOrder(NamedTuple):
    """Rows key by key in time order (`frame`), and whether a row is the first of its key (`begins_key`)."""

    frame: pl.DataFrame
    begins_key: npt.NDArray[np.bool_]


def in_time_order(frame: pl.DataFrame, key: str, time: str, ties: Sequence[str]) -> InTimeOrder:
    """Sort by key, then time, then `ties`: several times as fast as a sort by all of them where no two times are equal.

    Args:
        frame: rows in any order.
        key: its column of text, never null.
        time: its column of timestamps, never null.
        ties: columns by which rows of one key and one time are put in order; rows equal in all of these must be
            interchangeable.
    """
    times = frame[time].to_physical().to_numpy()
    if (times[1:] < times[:-1]).any():
        frame = frame[np.argsort(times, kind="stable")]
    rows = frame.select(key).with_row_index("row").group_by(key).agg("row").sort(key)["row"]
    ordered = frame[rows.explode()]
    begins_key = np.zeros(ordered.height, dtype=bool)
    begins_key[rows.list.len().cum_sum().shift(1, fill_value=0).to_numpy()] = True
    times = ordered[time].to_physical().to_numpy()
    if ((times[1:] == times[:-1]) & ~begins_key[1:]).any():
        ordered = ordered.sort(key, time, *ties)
    return InTimeOrder(ordered, begins_key)
