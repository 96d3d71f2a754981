"""The order of events is that of a sort by all columns, however they came."""

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from keyfold.operators.ordering import in_order

SCHEMA = {
    "time": pl.Int64,
    "key": pl.String,
    "part": pl.Int32,
    "text": pl.String,
    "number": pl.Float64,
    "list": pl.List(pl.String),
}
ROWS = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.sampled_from(["", "a", "b", "Ü"]),
        st.integers(-1, 1),
        st.sampled_from([None, "x", "y"]),
        st.sampled_from([None, -1.0, 2.5]),
        st.sampled_from([None, [], ["a"], [None], ["a", "b"]]),
    ),
    max_size=30,
)


@given(ROWS)
def test_events_lie_by_key_then_time_then_all_other_columns(rows):
    frame = pl.DataFrame(rows, schema=SCHEMA, orient="row").with_columns(pl.col("time").cast(pl.Datetime("us", "UTC")))
    ordered = in_order(frame, ("key", "part"), "time")
    assert ordered.events.equals(frame.sort("key", "part", "time", "text", "number", "list"))


@given(ROWS)
def test_each_key_has_its_first_and_its_last_row_and_each_row_the_number_of_its_key(rows):
    frame = pl.DataFrame(rows, schema=SCHEMA, orient="row").with_columns(pl.col("time").cast(pl.Datetime("us", "UTC")))
    ordered = in_order(frame, ["key"], "time")
    keys = sorted({row[1] for row in rows})
    assert ordered.events["key"][ordered.starts].to_list() == keys
    assert ordered.events["key"][ordered.lasts].to_list() == keys
    assert [keys[number] for number in ordered.key_number] == ordered.events["key"].to_list()
    assert np.flatnonzero(ordered.begins_key).tolist() == ordered.starts.tolist()


@given(ROWS, st.randoms())
def test_only_the_columns_named_break_ties(rows, random):
    schema = {name: SCHEMA[name] for name in ("time", "key", "number")}
    told = [(row[0], row[1], row[4]) for row in rows]
    frame, shuffled = (
        pl.DataFrame(some, schema, orient="row").with_columns(pl.col("time").cast(pl.Datetime("us", "UTC")))
        for some in (told, random.sample(told, len(told)))
    )
    assert in_order(shuffled, ["key"], "time", ["number"]).events.equals(frame.sort("key", "time", "number"))
