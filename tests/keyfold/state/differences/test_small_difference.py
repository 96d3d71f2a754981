"""Changed keys are counted in the driver as plain Python counts them."""

import math

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from keyfold.state.differences.diff_by_parts import SIDE, count_changes
from tests.examples import examples

SCHEMA = {"user": pl.String, "day": pl.Date, "clicks": pl.Int64, "amount": pl.Float64, SIDE: pl.Int32}
VALUES = st.tuples(st.sampled_from([None, 1, 2]), st.sampled_from([None, 0.0, -0.0, 1.5, math.nan, math.inf]))
ROWS = st.lists(st.tuples(st.sampled_from(["ann", "bob", None]), VALUES), max_size=8)


def in_order(rows):
    """The rows of each key as Spark sorts an array of them: NULL first, NaN last, and one zero."""

    def place(value):
        return (0, 0) if value is None else (2, 0) if math.isnan(value) else (1, value + 0.0)

    by_key = {}
    for user, values in rows:
        by_key.setdefault(user, []).append(tuple(map(place, values)))
    return {user: sorted(found) for user, found in by_key.items()}


@examples(200)
@given(before=ROWS, after=ROWS)
def test_keys_and_columns_that_differ_are_counted_whatever_the_order_of_rows(before, after):
    rows = [(user, None, *values, side) for side, found in enumerate((before, after)) for user, values in found]
    counts = count_changes(pl.DataFrame(rows, SCHEMA, orient="row"), ["user", "day"], ["clicks", "amount"])
    was, now = in_order(before), in_order(after)
    both = was.keys() & now.keys()
    changed = {user for user in both if was[user] != now[user]}
    assert counts == {
        "keys_before": len(was),
        "keys_after": len(now),
        "added": len(now.keys() - was.keys()),
        "removed": len(was.keys() - now.keys()),
        "changed": len(changed),
        "unchanged": len(both - changed),
        **{
            f"column {name}": sum([row[n] for row in was[user]] != [row[n] for row in now[user]] for user in changed)
            for n, name in enumerate(("clicks", "amount"))
        },
    }


def test_rows_of_keys_alone_are_counted():
    rows = pl.DataFrame({"user": ["ann", "ann", "ann", "bob", "bob"], SIDE: [0, 1, 1, 0, 1]})
    counts = count_changes(rows, ["user"], [])
    assert (counts["changed"], counts["unchanged"]) == (1, 1)
