"""What aggregates have come to at each event of a key, after all events before it; for `running`."""

from typing import Any

import numpy as np
import polars as pl

from keyfold.keyed.rows.exact_sums import fitted, units
from keyfold.operators.aggregation.aggregates import Aggregate
from keyfold.operators.aggregation.parts import check_number
from keyfold.operators.aggregation.spans import ranges
from keyfold.operators.ordering import Ordered

_HIGHEST = {"min": pl.min_horizontal, "max": pl.max_horizontal}


def values_so_far(
    name: str, one: Aggregate, before: pl.Series, goes_on: pl.Series, ordered: Ordered
) -> tuple[pl.Series, pl.Series | None]:
    """Return the aggregate at each event, and what state keeps of each lifetime if that is not its last value.

    Args:
        name, one: the aggregate.
        before: what each lifetime had before its first event.
        goes_on: whether it had any.
        ordered: the events, by lifetime.
    """
    events, number = ordered.events, ordered.key_number
    values = events.select(one.value).to_series()
    if one.joined == "distinct":
        return _sets(before, values, one.ignored, ordered), None
    if one.joined == "count_distinct":
        return _numbers(name, before, values, one.at_most, ordered)
    if one.joined == "collect":
        return _lists(name, before, values, one.at_most, ordered), None
    if one.joined == "first":
        return before.zip_with(goes_on, values.gather(ordered.starts).cast(before.dtype)).gather(number), None
    if one.joined == "last":
        return values.cast(before.dtype), None
    return _totals(one, before, ordered), None


def _totals(one: Aggregate, before: pl.Series, ordered: Ordered) -> pl.Series:
    """Return the count, sum, minimum or maximum at each event."""
    events, number = ordered.events, ordered.key_number
    if one.counts:
        # Every event counts: its place, from 1.
        first = before.fill_null(0).to_numpy() + 1 - ordered.starts
        return pl.Series(np.arange(events.height) + first[number])
    if one.joined in _HIGHEST:
        values = events.with_columns(one.value.alias("#value"), pl.Series("#number", number))
        so_far = getattr(pl.col("#value"), f"cum_{one.joined}")().forward_fill().over("#number")
        both = values.select(so_far, before.gather(number).alias("#before"))
        return both.select(_HIGHEST[one.joined](both.columns)).to_series()
    # In 128 bits, since running sums of 64 bits wrap around.
    delta, before_first = (
        rows.select(units(how).fill_null(0)).to_series()
        for rows, how in ((events, one.value), (before.to_frame(), pl.all()))
    )
    running = delta.cum_sum()
    # A running sum over all keys, less its value before each key's first event.
    began = before_first - (running - delta).gather(ordered.starts)
    totals = running + began.gather(number)
    return fitted(totals.alias(before.name), before.dtype)


def _sets(before: pl.Series, lists: pl.Series, ignored: tuple[Any, ...], ordered: Ordered) -> pl.Series:
    """Return the sorted set of elements at each event; `before` has the set before the first.

    A new set is built only where an element is seen for the first time; events refer to their set.
    """
    first = _first_seen(before, lists, ordered, ~pl.col("element").is_in(ignored))
    begins = ordered.begins_key
    begins[first["row"].to_numpy()] = True
    set_number = np.cumsum(begins) - 1
    members = first.select(
        "element",
        number=pl.int_ranges(
            pl.Series(set_number[first["row"].to_numpy()]),
            pl.Series(set_number[ordered.lasts][first["key"].to_numpy()] + 1),
        ),
    ).explode("number")
    sets = members.sort("number", "element").group_by("number", maintain_order=True).agg("element")
    every_set = pl.DataFrame({"number": np.arange(begins.sum())}).join(
        sets, on="number", how="left", maintain_order="left"
    )
    return every_set["element"].fill_null([]).gather(set_number)


def _first_seen(before: pl.Series, lists: pl.Series, ordered: Ordered, counts: pl.Expr | None = None) -> pl.DataFrame:
    """Return each `element` of each lifetime (`key`) with the `row` from which it is known; those before are from the first."""
    listed = pl.concat(
        [
            pl.DataFrame({"row": ordered.starts, "key": np.arange(before.len()), "element": before}),
            pl.DataFrame({"row": np.arange(lists.len()), "key": ordered.key_number, "element": lists}),
        ]
    )
    known = listed.explode("element").drop_nulls("element")
    known = known if counts is None else known.filter(counts)
    return known.group_by("key", "element").agg(pl.col("row").min())


def _numbers(
    name: str, before: pl.Series, values: pl.Series, at_most: int, ordered: Ordered
) -> tuple[pl.Series, pl.Series]:
    """Return the number of different values at each event, and all of them at the end of each lifetime."""
    first = _first_seen(before, _of_lists(values, before).reshape((-1, 1)).arr.to_list(), ordered)
    new = np.bincount(first["row"].to_numpy(), minlength=values.len())
    so_far = np.cumsum(new)
    numbers = so_far - (so_far - new)[ordered.starts][ordered.key_number]
    sets = first.sort("key", "element").group_by("key", maintain_order=True).agg("element")
    every = pl.DataFrame({"key": np.arange(before.len())}).join(sets, on="key", how="left", maintain_order="left")
    kept = every["element"].fill_null([])
    check_number(name, kept.list.len(), at_most)
    return pl.Series(numbers, dtype=pl.Int64), kept


def _of_lists(values: pl.Series, lists: pl.Series) -> pl.Series:
    return values.cast(lists.dtype.inner) if isinstance(lists.dtype, pl.List) else values


def _lists(name: str, before: pl.Series, values: pl.Series, at_most: int, ordered: Ordered) -> pl.Series:
    """Return the values up to each event, in order."""
    number, had = ordered.key_number, before.list.len().fill_null(0).to_numpy().astype(np.intp)
    length = had[number] + np.arange(values.len()) - ordered.starts[number] + 1
    check_number(name, pl.Series(length), at_most)
    earlier = (
        pl.DataFrame({"key": np.arange(before.len()), "value": before}).filter(pl.Series(had > 0)).explode("value")
    )
    every = pl.concat([earlier, pl.DataFrame({"key": number, "value": _of_lists(values, before)})])
    begins = ordered.starts + np.cumsum(had) - had
    event, place = ranges(begins[number], begins[number] + length - 1)
    lists = pl.DataFrame({"event": event, "value": every.sort("key", maintain_order=True)["value"].gather(place)})
    return lists.group_by("event", maintain_order=True).agg("value")["value"]
