"""Sort events by key and time, and ties by their other columns, so that the order does not depend on their arrival."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray


class Ordered(NamedTuple):
    """Events that are grouped by key, and sorted by time within each key.

    Attributes:
        events: the rows, in order.
        starts: row of the first event of each key.
        key_number: for each row the index of its key in `starts`.
    """

    events: pl.DataFrame
    starts: NDArray[np.intp]
    key_number: NDArray[np.intp]

    @property
    def lasts(self) -> NDArray[np.intp]:
        """Row of the last event of each key."""
        return np.append(self.starts[1:], self.events.height)[: len(self.starts)] - 1

    @property
    def begins_key(self) -> NDArray[np.bool_]:
        """For each row, whether it is the first of its key."""
        begins = np.zeros(self.events.height, dtype=bool)
        begins[self.starts] = True
        return begins


def in_order(events: pl.DataFrame, key: Sequence[str], time: str, ties: Sequence[str] | None = None) -> Ordered:
    """Sort by key, then time, then `ties` (missing values first); several times as fast as a plain sort by all of them.

    Row numbers are grouped by key. Only keys whose rows are not in order of time yet are sorted, which are few, and other
    columns are compared only for ties.

    Args:
        events: rows in any order.
        key: columns of the key, never NULL.
        time: column of timestamps, never NULL.
        ties: columns that order rows of the same key and time; by default all others. Rows that are equal in all of them
            must be interchangeable.
    """
    rows = events.select(key).with_row_index("#row").group_by(key).agg("#row").sort(key)["#row"]
    lengths = rows.list.len().to_numpy().astype(np.intp)
    key_number = np.repeat(np.arange(len(lengths)), lengths)
    order = rows.explode(empty_as_null=False).to_numpy()
    by_key = events[_in_time(order, key_number, _physical(events, time))]
    ties = [name for name in events.columns if name not in (*key, time)] if ties is None else ties
    return Ordered(_without_ties(by_key, key_number, time, ties), np.cumsum(lengths) - lengths, key_number)


def _in_time(order: NDArray[np.uint32], key_number: NDArray[np.intp], times: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Sort row numbers, which are grouped by key, by time within each key."""
    times = times[order]
    # Events mostly arrive in order: finding the keys that need sorting is cheaper than sorting all.
    is_behind = (times[1:] < times[:-1]) & (key_number[1:] == key_number[:-1])
    if not is_behind.any():
        return order
    has_any = np.zeros(key_number[-1] + 1, dtype=bool)
    has_any[key_number[1:][is_behind]] = True
    part = np.flatnonzero(has_any[key_number])
    order = order.copy()
    order[part] = order[part][np.lexsort((times[part], key_number[part]))]
    return order


def _without_ties(by_key: pl.DataFrame, key_number: NDArray[np.intp], time: str, ties: Sequence[str]) -> pl.DataFrame:
    """Sort the rows of a key that have the same time, by their other columns."""
    times = _physical(by_key, time)
    # Between each row and the next one, with an end on both sides: a row is tied with the one before or the one after it.
    is_tie = np.zeros(by_key.height + 1, dtype=bool)
    is_tie[1:-1] = (key_number[1:] == key_number[:-1]) & (times[1:] == times[:-1])
    tied = np.flatnonzero(is_tie[:-1] | is_tie[1:])
    if not tied.size:
        return by_key
    # Each group of tied rows has a number, so that one sort orders all groups and keeps them in place.
    instant = pl.Series("#instant", np.cumsum(~is_tie)[tied])
    compared = by_key[tied].select(instant, *ties)
    order = np.arange(by_key.height)
    order[tied] = tied[compared.select(pl.arg_sort_by(compared.columns)).to_series().to_numpy()]
    return by_key[order]


def _physical(events: pl.DataFrame, time: str) -> NDArray[np.int64]:
    return events[time].to_physical().to_numpy()
