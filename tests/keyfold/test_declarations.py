"""What is wrong in a declaration is said when it is made, by its place, with what is there and what to do."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from keyfold import STEP_DECIDES, Append, Input, KeyedJob, Stream, Upsert, required
from keyfold.errors import Misconfigured
from keyfold.operators import collect, count, quantile, windows
from keyfold.operators import max as greatest
from keyfold.operators import sum as sum_of
from keyfold.stream import TIMESTAMP, Rule

CLICK = [required("user", pa.string(), "Who"), required("at", TIMESTAMP, "When"), pa.field("cents", pa.int64())]
CLICKS = Stream("clicks", CLICK, event_time="at")


def of_type(kind: pa.DataType) -> Callable[[], object]:
    return lambda: Stream("clicks", [*CLICK, pa.field("more", kind)], event_time="at")


def per_hour(source: Any = CLICKS, of: Any = None, **settings: Any) -> KeyedJob:
    return windows("hourly", source, of or {"clicks": count()}, key="user", **{"length": "1h", **settings})


def job(**settings: Any) -> KeyedJob:
    of: dict[str, Any] = {"key": "user", "state": {"user": pl.String}, "step": lambda *_: None, "tables": Append(CLICK)}
    return KeyedJob("visits", Input(CLICKS, final_at=STEP_DECIDES), **{**of, **settings})


FAULTS: dict[str, tuple[Callable[[], object], str]] = {
    "a stream's name of two words": (
        lambda: Stream("My clicks", CLICK, event_time="at"),
        "stream My clicks: the name 'My clicks' must be lower-case",
    ),
    "a stream's name that leads elsewhere": (lambda: Stream("a/../b", CLICK, event_time="at"), "must be lower-case"),
    "a column twice": (lambda: Stream("clicks", [*CLICK, CLICK[0]], event_time="at"), "schema: user is there twice"),
    "columns that differ in case": (
        lambda: Stream("clicks", [*CLICK, pa.field("User", pa.string())], event_time="at"),
        "User and user differ in case alone|user and User differ in case alone",
    ),
    "a column's name that Delta lacks": (
        lambda: Stream("clicks", [*CLICK, pa.field("speed (km/h)", pa.int64())], event_time="at"),
        r"a column cannot be called 'speed \(km/h\)'",
    ),
    "a column's name that is Keyfold's": (
        lambda: Stream("clicks", [*CLICK, pa.field("#slot", pa.int64())], event_time="at"),
        "a column cannot be called '#slot'",
    ),
    "numbers without a sign": (of_type(pa.uint64()), "more is uint64, which a Delta table cannot hold: take int64"),
    "a number without a sign in a list": (of_type(pa.list_(pa.uint8())), "cannot hold: take int64"),
    "a length of time": (of_type(pa.duration("us")), "more is duration.*cannot hold: take int64"),
    "a time of day": (of_type(pa.time64("us")), "more is time64"),
    "a time in nanoseconds": (of_type(pa.timestamp("ns", tz="UTC")), r'take pa.timestamp\("us", tz="UTC"\)'),
    "a time without a zone": (of_type(pa.timestamp("us")), "more is timestamp.*which ingest cannot read"),
    "a map": (of_type(pa.map_(pa.string(), pa.int64())), "more is map.*which ingest cannot read"),
    "bytes": (of_type(pa.binary()), "more is binary, which ingest cannot read; take text"),
    "an event time that is none": (
        lambda: Stream("clicks", CLICK, event_time="cents"),
        "event_time cents is int64; it must be",
    ),
    "a type of Python": (
        lambda: Stream("clicks", {"at": TIMESTAMP, "user": str}, event_time="at"),  # type: ignore[dict-item]
        "schema: user has type <class 'str'>; give a type of Polars",
    ),
    "a column of a type of Python": (
        lambda: required("user", str, "Who"),  # type: ignore[arg-type]
        "column user has type <class 'str'>; give a type of Polars",
    ),
    "a window of copies that is no length": (
        lambda: Stream("clicks", CLICK, event_time="at", duplicate_window="a week"),  # type: ignore[arg-type]
        "stream clicks: duplicate_window is 'a week': write a number and s, m, h or d",
    ),
    "a stream without columns": (
        lambda: Stream("clicks", {}, event_time="at"),  # type: ignore[arg-type]
        "stream clicks: schema: declare at least one column",
    ),
    "an id of a column that is not there": (
        lambda: Stream("clicks", CLICK, event_time="at", event_id="click_id"),  # type: ignore[arg-type]
        "event_id names click_id, which its schema does not have",
    ),
    "a rule that is text": (
        lambda: Stream("clicks", CLICK, event_time="at", rules=(Rule("free", "cents < 0"),)),  # type: ignore[arg-type]
        "is no rule; give Rule",
    ),
    "a job of two words": (
        lambda: windows("two words", CLICKS, {}, key="user", length="1h"),
        "job two words: the name .two words. must be lower-case",
    ),
    "a stream by its name": (lambda: per_hour("clicks"), "an input is of 'clicks'; give the Stream itself"),
    "a condition that is text": (
        lambda: CLICKS.where("cents > 3"),  # type: ignore[arg-type]
        "input clicks: where is 'cents > 3'; it must be an expression",
    ),
    "a derived column that is text": (
        lambda: CLICKS.derive(euros="cents / 100"),  # type: ignore[arg-type]
        "input clicks: derive: euros is 'cents / 100'; it must be an expression",
    ),
    "a list's name in place of its values": (
        lambda: CLICKS.explode("item", "items"),  # type: ignore[arg-type]
        r"input clicks: explode is 'items'; it must be an expression, such as pl.col\('items'\)",
    ),
    "an exploded list that is not there": (
        lambda: per_hour(CLICKS.explode("usr")),
        "input clicks: explode: usr: there is no column usr; did you mean user",
    ),
    "a delay of another form": (
        lambda: Input(CLICKS, delay="5 minutes"),
        "input clicks: delay is '5 minutes': write a number",
    ),
    "a delay below nothing": (lambda: Input(CLICKS, delay="-5m"), "input clicks: delay is '-5m'"),
    "a silence of another form": (lambda: Input(CLICKS, idle_timeout="soon"), "input clicks: idle_timeout is 'soon'"),
    "an aggregate that is text": (
        lambda: per_hour(of={"n": "count"}),
        r"n is 'count'; give an aggregate, such as count\(\)",
    ),
    "an aggregate of an unknown column": (
        lambda: per_hour(of={"n": sum_of("cent")}),
        "no column cent; did you mean cents",
    ),
    "an aggregate of a number": (lambda: sum_of(3), "the value of sum is 3; it must be a column's name"),  # type: ignore[arg-type]
    "a list of no values": (lambda: collect("cents", 0), "collect: at_most is 0; it must be 1 or more"),
    "a quantile of texts": (lambda: per_hour(of={"n": quantile("user", 0.5)}), "job hourly: n: String is no number"),
    "the greatest of lists": (
        lambda: per_hour(of={"n": greatest(pl.col("user").str.split(" "))}),
        r"job hourly: n: List\(String\) has no order",
    ),
    "an aggregate called as the key": (
        lambda: per_hour(of={"user": count()}),
        "job hourly: output: user is there twice",
    ),
    "an aggregate called as the window": (lambda: per_hour(of={"window_end": count()}), "window_end is there twice"),
    "an aggregate with a name of Keyfold's": (lambda: per_hour(of={"#slot": count()}), "cannot be called '#slot'"),
    "a result that Delta cannot hold": (
        lambda: per_hour(then={"n": pl.col("clicks").cast(pl.UInt32)}),
        "job hourly: output: n is uint32, which a Delta table cannot hold: take int64",
    ),
    "a step that is none": (
        lambda: job(step=7),
        r"job visits: step is 7; it must be a function \(state, events, clock\)",
    ),
    "a table that is a schema": (
        lambda: job(tables=[pa.schema(CLICK)]),
        "(?s)job visits: a table is .*; it must be Append",
    ),
    "a table with a type that Delta lacks": (lambda: Append({"user": pl.UInt8}), "user is uint8, which a Delta table"),
    "a key that the table lacks": (
        lambda: Upsert({"user": pl.String}, "usr"),
        "key has no column usr; it has user",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_where_it_is_declared(fault: str):
    declare, message = FAULTS[fault]
    with pytest.raises(Misconfigured, match=message):
        declare()


def test_a_schema_is_a_dict_or_a_list_and_names_may_be_one_text():
    stream = Stream("clicks", {"id": pl.Int64, "at": TIMESTAMP, "on": pl.Date}, event_time="at", event_id="id")  # type: ignore[arg-type]
    assert stream.schema == pa.schema(
        [pa.field("id", pa.int64(), nullable=False), pa.field("at", TIMESTAMP, nullable=False), ("on", pa.date32())]
    )
    assert stream.event_id == ("id",)


def test_types_of_polars_and_lengths_as_text_say_the_same_as_types_of_arrow_and_lengths():
    of_polars = [required("user", pl.String, "Who"), required("at", pl.Datetime("us", "UTC"), "When"), CLICK[2]]
    assert Stream("clicks", of_polars, event_time="at", max_age="30d", future_bound="12h") == Stream(  # type: ignore[arg-type]
        "clicks", CLICK, event_time="at", max_age=timedelta(days=30), future_bound=timedelta(hours=12)
    )
