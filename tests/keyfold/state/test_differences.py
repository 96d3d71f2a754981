"""Changed keys are counted as plain Python counts them."""

import math

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from keyfold.state.differences import count_changes
from tests.examples import examples

SCHEMA = {"user": pl.String, "day": pl.Date, "change": pl.Int64, "amount": pl.Float64}
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
    left, right = (
        pl.DataFrame([(user, None, *values) for user, values in rows], SCHEMA, orient="row") for rows in (before, after)
    )
    counts = count_changes(left, right, ["user", "day"], ["change", "amount"])
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
            for n, name in enumerate(("change", "amount"))
        },
    }


def test_rows_of_keys_alone_are_counted():
    before, after = pl.DataFrame({"user": ["ann", "bob"]}), pl.DataFrame({"user": ["ann", "ann", "bob"]})
    counts = count_changes(before, after, ["user"], [])
    assert (counts["changed"], counts["unchanged"]) == (1, 1)


def test_rows_with_lists_and_structs_have_no_order_either():
    rows = pl.DataFrame({"user": ["ann"] * 2, "at": [[1], [2, None]], "of": [{"x": [1.5]}, {"x": None}]})
    other = rows.with_columns(at=pl.col("at").list.reverse())
    assert count_changes(rows, rows.reverse(), ["user"], ["at", "of"])["unchanged"] == 1
    counts = count_changes(rows, other, ["user"], ["at", "of"])
    assert (counts["changed"], counts["column at"], counts["column of"]) == (1, 1, 0)
