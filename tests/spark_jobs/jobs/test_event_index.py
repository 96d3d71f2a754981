"""The event index, without Spark: its columns and windows; its rows are those of `test_any_history.py`."""

from dataclasses import replace
from datetime import timedelta

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.errors import KeyfoldError
from keyfold.keyed.job.building import build_job
from keyfold.testing import play
from keyfold.times import EPOCH, period_starts
from spark_jobs.jobs.event_index import EVENT_INDEX
from spark_jobs.streams import SALES, STREAMS
from tests.examples import examples
from tests.shop import NOON
from tests.spark_jobs.jobs.sales_data import sale, sales_frame
from tests.spark_jobs.jobs.sales_oracle import starts_of

LONG_PAST_ALL = NOON + timedelta(days=30)


def index_job(**parameters):
    return build_job(EVENT_INDEX, parameters)


def sales_index(**parameters):
    return index_job(stream="sales", key="item", **parameters)


def indexes(harness, *columns):
    return harness.written["event_index"].select(*columns, "event_index").rows()


def test_all_columns_of_the_stream_are_in_the_output():
    for name, stream in STREAMS.items():
        key = stream.schema.names[0]
        assert index_job(stream=name, key=key).main.schema.names == [*stream.schema.names, "event_index"]


def test_a_key_may_have_many_columns():
    sales = [sale("cup", quantity, minutes) for minutes, quantity in enumerate([1, 2, 1, 2, 1])]
    harness = play(index_job(stream="sales", key="item, quantity"), [sales_frame(sales)], LONG_PAST_ALL)
    assert sorted(indexes(harness, "quantity")) == [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1)]


@examples(100)
@given(
    st.integers(-(10**15), 10**15),
    st.integers(1, 50),
    st.integers(1, 50),
    st.sampled_from([timedelta(seconds=1), timedelta(minutes=7), timedelta(microseconds=1)]),
)
def test_the_windows_of_a_time_are_those_that_hold_it(moment, length, every, unit):
    length, every = max(length, every) * unit, every * unit
    time = EPOCH + timedelta(microseconds=moment)
    found = pl.select(period_starts(pl.lit(time).cast(pl.Datetime("us", "UTC")), length, every)).item().to_list()
    assert found == sorted(starts_of(time, length, every))


@pytest.mark.parametrize(
    ("window", "told"),
    [("1h", "1h"), (" 60m ", "1h"), ("1h every 15m", "1h every 15m"), ("90m  every 0.5h", "90m every 30m"),
     ("1d every 1d", "1d"), ("1.5s", "1.5s"), (timedelta(minutes=5), "5m")],
)  # fmt: skip
def test_a_window_is_written_down_as_it_may_be_given_again(window, told):
    parameters = index_job(window=window).parameters
    assert parameters["window"] == told
    assert index_job(**parameters).parameters == parameters


def test_a_stream_with_a_column_of_a_window_s_name_is_refused_where_there_are_windows(monkeypatch):
    schema = SALES.schema.append(pa.field("window_end", pa.string()))
    monkeypatch.setitem(STREAMS, "sales", replace(SALES, schema=schema))
    assert sales_index().main.schema.names[-1] == "event_index"
    with pytest.raises(KeyfoldError, match="window_end is there twice"):
        sales_index(window="1h")
