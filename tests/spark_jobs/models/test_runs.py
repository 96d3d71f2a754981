"""Events in order and the runs of their keys, against Polars' own sorting."""

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.models.runs import in_order, key_runs

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EVENTS = {"key": pl.String, "value": pl.Float64, "event_time": pl.Datetime("us", "UTC")}


def frame(drawn):
    rows = [(key, value, EPOCH + timedelta(microseconds=time)) for key, value, time in drawn]
    return pl.DataFrame(rows, schema=EVENTS, orient="row")


near, far = st.integers(0, 5), st.integers(0, 10**17)
drawn_events = st.lists(st.tuples(st.sampled_from(["a", "b", "é", "10", "9"]), st.floats(-9, 9), st.one_of(near, far)))


@settings(deadline=None, max_examples=200)
@given(drawn_events)
def test_order_is_that_of_key_then_time_then_value(drawn):
    events = frame([(key, value + 0.0, time) for key, value, time in drawn])
    assert in_order(events).equals(events.sort("key", "event_time", "value"))


def test_order_holds_where_keys_and_times_do_not_fit_one_number():
    ends = [(str(key), 1.0, 10**17 * (key % 2)) for key in range(200)]
    events = frame([*ends, *ends])
    assert in_order(events).equals(events.sort("key", "event_time", "value"))


def test_runs_say_where_each_keys_events_lie_and_which_model_is_theirs():
    models = pl.DataFrame({"key": ["a", "b", "c"]})
    runs = key_runs(models, frame([("a", 1.0, 0), ("a", 2.0, 1), ("c", 3.0, 0)]))
    assert [list(part) for part in runs] == [[0, 2], [2, 1], [0, 2], [0, 0, 1], [0, 1, 0]]


@pytest.mark.parametrize("keys", [["a", "x"], ["a", "b", "a"]])
def test_events_without_a_model_or_out_of_order_are_refused(keys):
    models = pl.DataFrame({"key": ["a", "b"]})
    with pytest.raises(ValueError, match="every key of the events needs one model"):
        key_runs(models, frame([(key, 1.0, 0) for key in keys]))
