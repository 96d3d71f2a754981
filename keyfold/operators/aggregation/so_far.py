"""What aggregates have come to at each event of a key, after all events before it; for `running`."""

from typing import NamedTuple

import numpy as np
import polars as pl

from keyfold.operators.aggregation.parts import check_number
from keyfold.operators.aggregation.ranges import ranges
from keyfold.operators.aggregation.rows_in_order import AggregatesInOrder
from keyfold.operators.ordering import Ordered


class SoFar(NamedTuple):
    """The aggregates at each event, and their parts at the end of each lifetime."""

    values: pl.DataFrame
    ends: pl.DataFrame


def aggregates_so_far(
    aggregates: AggregatesInOrder, before: pl.DataFrame, goes_on: pl.Series, ordered: Ordered
) -> SoFar:
    """Return the aggregates at each event.

    Args:
        aggregates: the aggregates.
        before: the parts that each lifetime had before its first event.
        goes_on: whether it had any.
        ordered: the events, by lifetime.

    Raises:
        TotalTooLargeError: a sum overflows its column.
        TooManyValuesError: a key has more values than are kept.
    """
    events, starts, number = ordered.events, ordered.starts, ordered.key_number
    parts = aggregates.parts(events, np.ones(events.height, dtype=bool))
    lists = dict[str, tuple[pl.Series, pl.Series]]()
    for name, (column, join, at_most) in aggregates.lists.items():
        earlier = before[column].set(~goes_on, None)
        if join == "list":
            so_far = _lists(name, earlier, parts[column], at_most, ordered)
            lists[name] = so_far, so_far.gather(ordered.lasts)
        elif aggregates.of[name].kind == "distinct":
            so_far = _sets(earlier, parts[column], ordered)
            lists[name] = so_far, so_far.gather(ordered.lasts)
        else:
            lists[name] = _numbers(name, earlier, parts[column], at_most, ordered)
    # A row with what was before comes first in its lifetime.
    had = goes_on.to_numpy()
    shift = np.cumsum(had)
    place = np.arange(events.height) + shift[number]
    incomplete = aggregates.incomplete.column_in(before)
    before = before.select(*parts.columns, *incomplete)
    parts = parts.with_columns(pl.lit(None, before.schema[name]).alias(name) for name in incomplete)
    rows = pl.concat([before.filter(goes_on), parts.cast(before.schema)])
    order = np.empty(rows.height, np.intp)
    order[(starts + shift - 1)[had]] = np.arange(had.sum())
    order[place] = np.arange(events.height) + had.sum()
    is_event = np.ones(rows.height, dtype=bool)
    is_event[(starts + shift - 1)[had]] = False
    first = (starts + shift - had)[number]
    others = [name for name in aggregates.of if name not in lists]
    joined = aggregates.joined(rows[order], is_event, first, place, only=others)
    of_lists = pl.DataFrame({**{name: of for name, (of, _) in lists.items()}, **joined.select(incomplete).to_dict()})
    of_lists = of_lists.select(
        **aggregates.incomplete.without_partial(of_lists, {name: pl.col(name) for name in lists})
    )
    values = {**aggregates.finished(joined).to_dict(), **of_lists.to_dict()}
    ends = {part: joined[part].gather(ordered.lasts) for part in joined.columns}
    ends |= {aggregates.lists[name].column: end for name, (_, end) in lists.items()}
    return SoFar(pl.DataFrame(values), pl.DataFrame(ends))


def _sets(before: pl.Series, lists: pl.Series, ordered: Ordered) -> pl.Series:
    """Return the sorted set of elements at each event; `before` has the set before the first.

    A new set is built only where an element is seen for the first time; events refer to their set.
    """
    first = _first_seen(before, lists, ordered)
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


def _first_seen(before: pl.Series, lists: pl.Series, ordered: Ordered) -> pl.DataFrame:
    """Return each `element` of each lifetime (`key`) with the `row` from which it is known; those before are from the first."""
    listed = pl.concat(
        [
            pl.DataFrame({"row": ordered.starts, "key": np.arange(before.len()), "element": before}),
            pl.DataFrame({"row": np.arange(lists.len()), "key": ordered.key_number, "element": lists}),
        ]
    )
    elements = listed.explode("element").drop_nulls("element")
    return elements.group_by("key", "element").agg(pl.col("row").min())


def _numbers(
    name: str, before: pl.Series, lists: pl.Series, at_most: int, ordered: Ordered
) -> tuple[pl.Series, pl.Series]:
    """Return the number of different values at each event, and all of them at the end of each lifetime."""
    first = _first_seen(before, lists, ordered)
    new = np.bincount(first["row"].to_numpy(), minlength=lists.len())
    so_far = np.cumsum(new)
    numbers = so_far - (so_far - new)[ordered.starts][ordered.key_number]
    sets = first.sort("key", "element").group_by("key", maintain_order=True).agg("element")
    every = pl.DataFrame({"key": np.arange(before.len())}).join(sets, on="key", how="left", maintain_order="left")
    all_values = every["element"].fill_null([])
    check_number(name, all_values.list.len(), at_most)
    return pl.Series(numbers, dtype=pl.Int64), all_values


def _lists(name: str, before: pl.Series, lists: pl.Series, at_most: int, ordered: Ordered) -> pl.Series:
    """Return the values up to each event, in order."""
    number, had = ordered.key_number, before.list.len().fill_null(0).to_numpy().astype(np.intp)
    length = had[number] + np.arange(lists.len()) - ordered.starts[number] + 1
    check_number(name, pl.Series(length), at_most)
    earlier = pl.DataFrame({"key": np.arange(before.len()), "value": before}).filter(pl.Series(had > 0))
    every = pl.concat([earlier, pl.DataFrame({"key": number, "value": lists})]).explode("value")
    begins = ordered.starts + np.cumsum(had) - had
    event, place = ranges(begins[number], begins[number] + length - 1)
    values = pl.DataFrame({"event": event, "value": every.sort("key", maintain_order=True)["value"].gather(place)})
    return values.group_by("event", maintain_order=True).agg("value")["value"]
