"""The step of the event index, without Spark, against a sort and a count in plain Python."""

from dataclasses import replace
from datetime import datetime, timedelta

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.errors import KeyfoldError
from keyfold.keyed.job.building import build_job
from keyfold.keyed.rows.codec import polars_schema
from keyfold.testing import play
from keyfold.times import EPOCH, period_starts
from spark_jobs.jobs.event_index import EVENT_INDEX
from spark_jobs.streams import RIDE_POINTS, SALES, STREAMS
from tests.examples import examples
from tests.spark_jobs.jobs.sales_data import NOON, sale, sales_frame

LONG_PAST_ALL = NOON + timedelta(days=30)


def index_job(**parameters):
    return build_job(EVENT_INDEX, parameters)


def sales_index(**parameters):
    return index_job(stream="sales", key="item", **parameters)


def point(ride, index, minutes, status="enroute"):
    return {
        "ride_id": ride,
        "point_idx": index,
        "latitude": 40.7,
        "longitude": -74.0,
        "timestamp": NOON + timedelta(minutes=minutes),
        "ride_status": status,
    }


def points_frame(points):
    return pl.DataFrame(points, schema=polars_schema(RIDE_POINTS.schema), orient="row")


def indexes(harness, *columns):
    return harness.written["event_index"].select(*columns, "event_index").rows()


def play_points(job, batches, end: datetime | None = LONG_PAST_ALL):
    return play(job, [points_frame(batch) for batch in batches], end)


def test_events_of_a_key_are_numbered_from_nought_in_order_of_time():
    points = [point("a", 2, 9), point("b", 0, 4), point("a", 1, 5), point("a", 0, 0)]
    assert indexes(play_points(index_job(), [points]), "ride_id", "point_idx") == [
        ("a", 0, 0),
        ("a", 1, 1),
        ("a", 2, 2),
        ("b", 0, 0),
    ]


def test_all_columns_of_the_stream_are_in_the_output():
    for name, stream in STREAMS.items():
        key = stream.schema.names[0]
        assert index_job(stream=name, key=key).main.schema.names == [*stream.schema.names, "event_index"]


def test_a_key_may_have_many_columns():
    sales = [sale("cup", quantity, minutes) for minutes, quantity in enumerate([1, 2, 1, 2, 1])]
    harness = play(index_job(stream="sales", key="item, quantity"), [sales_frame(sales)], LONG_PAST_ALL)
    assert sorted(indexes(harness, "quantity")) == [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1)]


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"stream": "sails"}, "no stream 'sails'; parameter stream takes one of ride_points"),
        ({"key": "ride"}, r"key: there is no column ride; did you mean ride_id\? There are ride_id, point_idx"),
        ({"stream": "sales", "key": "item,invoice"}, "key column invoice may be NULL"),
        ({"key": "timestamp"}, "key: timestamp is the event time, which orders the events of a key"),
        ({"key": "ride_id,ride_id"}, "ride_id is there twice"),
        ({"key": []}, "key="),
    ],
)
def test_a_stream_or_key_that_cannot_be_is_refused_with_what_can(parameters, told):
    with pytest.raises(KeyfoldError, match=told):
        index_job(**parameters)


def test_a_window_does_not_expire_by_itself_too():
    with pytest.raises(KeyfoldError, match="give either window or expire_after, not both"):
        index_job(window="1h", expire_after="2h")


def starts_of(time, length, every):
    """The starts of the windows that a time is in, by counting up from long before."""
    start = time - (time - EPOCH) % every
    return [start - n * every for n in range(200) if start - n * every + length > time]


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


@pytest.mark.parametrize(
    ("window", "told"),
    [
        (
            "an hour",
            "window='an hour': write a length, `1h`, or a length and how often a window begins, `1h every 15m`",
        ),
        ("1h every", "write a length"),
        ("1h every 15m every 5m", "write a length"),
        (60, "window=60: write a length"),
        ("0s", "a window is longer than nothing"),
        ("1h every 0s", "so is the time from one to the next"),
        ("15m every 1h", "windows of 15m that begin every 1h leave gaps.* begin every 15m at most"),
        ("1d every 1s", r"in 86,400 windows, a row in each; it may be in 1000 at most"),
    ],
)
def test_a_window_that_cannot_be_is_refused_with_what_can(window, told):
    with pytest.raises(KeyfoldError, match=told):
        index_job(window=window)


def test_a_stream_with_a_column_of_a_window_s_name_is_refused_where_there_are_windows(monkeypatch):
    schema = SALES.schema.append(pa.field("window_end", pa.string()))
    monkeypatch.setitem(STREAMS, "sales", replace(SALES, schema=schema))
    assert sales_index().main.schema.names[-1] == "event_index"
    with pytest.raises(KeyfoldError, match="window_end is there twice"):
        sales_index(window="1h")
