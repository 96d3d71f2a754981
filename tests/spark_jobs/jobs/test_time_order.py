"""Order by key and time, against Python's own sort."""

from datetime import UTC, datetime, timedelta

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.jobs.time_order import in_time_order

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ROWS = st.lists(st.tuples(st.sampled_from(["a", "b", "", "ä"]), st.integers(-5, 5), st.none() | st.integers(0, 2)))
SCHEMA = {"key": pl.String, "time": pl.Datetime("us", "UTC"), "value": pl.Int64}


def ordered(rows):
    frame = pl.DataFrame(
        [(key, NOON + timedelta(hours=hour), value) for key, hour, value in rows], SCHEMA, orient="row"
    )
    return in_time_order(frame, "key", "time", ("value",))


@settings(deadline=None)
@given(ROWS.filter(len), st.randoms())
def test_rows_lie_by_key_then_time_then_ties_in_whatever_order_they_came(rows, random):
    found = ordered(random.sample(rows, len(rows)))
    expected = sorted(rows, key=lambda row: (row[0].encode(), row[1], row[2] is not None, row[2] or 0))
    assert found.frame.rows() == [(key, NOON + timedelta(hours=hour), value) for key, hour, value in expected]
    keys = [key for key, _, _ in expected]
    assert found.begins_key.tolist() == [index == 0 or keys[index - 1] != key for index, key in enumerate(keys)]


def test_no_rows_lie_in_order():
    found = ordered([])
    assert (found.frame.height, len(found.begins_key)) == (0, 0)
