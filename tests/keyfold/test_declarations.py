"""What is wrong in a declaration is said when it is made, by its place, with what is there and what to do."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pydantic import Field

import keyfold
from keyfold import (
    STEP_DECIDES,
    Append,
    Duration,
    Input,
    JobParameters,
    KeyedJob,
    Lakehouse,
    Lookup,
    Stream,
    Upsert,
    parameter,
    required,
)
from keyfold.errors import Misconfigured
from keyfold.operators import (
    Calendar,
    First,
    Held,
    Highest,
    Last,
    Lateness,
    Pattern,
    Top,
    Until,
    alert,
    as_of_join,
    collect,
    count,
    first,
    lookup_join,
    pattern,
    quantile,
    rows,
    sessions,
    windows,
)
from keyfold.operators import max as greatest
from keyfold.operators import min as min_of
from keyfold.operators import sum as sum_of
from keyfold.stream import TIMESTAMP, Rule
from keyfold.validation import validated

CLICK = [required("user", pa.string(), "Who"), required("at", TIMESTAMP, "When"), pa.field("cents", pa.int64())]
CLICKS = Stream("clicks", CLICK, event_time="at")


def of_type(kind: pa.DataType) -> Callable[[], object]:
    return lambda: Stream("clicks", [*CLICK, pa.field("more", kind)], event_time="at")


def per_hour(source: Any = CLICKS, of: Any = None, **settings: Any) -> KeyedJob:
    return windows("hourly", source, of or {"clicks": count()}, **{"key": "user", "length": "1h", **settings})


def job(**settings: Any) -> KeyedJob:
    of: dict[str, Any] = {"key": "user", "state": {"user": pl.String}, "step": lambda *_: None, "tables": Append(CLICK)}
    return KeyedJob("visits", **{"inputs": Input(CLICKS, final_at=STEP_DECIDES), **of, **settings})


CENTS = pl.col("cents")
DEAR, COUNTED = CENTS > 3, {"clicks": count()}
SEEN = Stream("clicks", [*CLICK, pa.field("seen_at", TIMESTAMP)], event_time="at")
LEFT = "l", Input(CLICKS, columns=("user", "at", "cents"))
RIGHT = "r", Input(CLICKS.derive(then=pl.col("at")), "then", columns=("user", "then"))


def held(begins: Any) -> KeyedJob:
    return alert("j", CLICKS, {"dear": Held(begins, CENTS < 1)}, key="user")


# Of these a type checker would say the same.
stream: Any = Stream
UNTYPED: Any = CLICKS
UNTYPED_NAME: Any = "n"
UNTYPED_CONDITION: Any = "cents < 0"
NEVER: Any = "never"
UNTYPED_JOB: Any = "visits"
UNTYPED_HOW: Any = "outer"
UNTYPED_HOW_TO_KEEP: Any = "last"
UNTYPED_ALERT: Any = DEAR
UNTYPED_PERIOD: Any = "moth"
UNTYPED_KEY: Any = pl.col("user")
FAULTS: dict[str, Callable[[], Any]] = {
    "stream My clicks: name is 'My clicks': it must be lower-case": lambda: stream("My clicks", CLICK, event_time="at"),
    "must be lower-case": lambda: stream("a/../b", CLICK, event_time="at"),
    "schema: user is there twice": lambda: stream("clicks", [*CLICK, CLICK[0]], event_time="at"),
    "User and user differ in case alone|user and User differ in case alone": lambda: stream(
        "clicks", [*CLICK, pa.field("User", pa.string())], event_time="at"
    ),
    r"a column cannot be called 'speed \(km/h\)'": lambda: stream(
        "clicks", [*CLICK, pa.field("speed (km/h)", pa.int64())], event_time="at"
    ),
    "a column cannot be called '#slot'": lambda: stream(
        "clicks", [*CLICK, pa.field("#slot", pa.int64())], event_time="at"
    ),
    "more is uint64, which a Delta table cannot hold: take int64": of_type(pa.uint64()),
    "cannot hold: take int64": of_type(pa.list_(pa.uint8())),
    "more is duration.*cannot hold: take int64": of_type(pa.duration("us")),
    "more is time64": of_type(pa.time64("us")),
    r'take pa.timestamp\("us", tz="UTC"\)': of_type(pa.timestamp("ns", tz="UTC")),
    "more is timestamp.*which ingest cannot read": of_type(pa.timestamp("us")),
    "more is map.*which ingest cannot read": of_type(pa.map_(pa.string(), pa.int64())),
    "more is binary, which ingest cannot read; take text": of_type(pa.binary()),
    "event_time cents is int64; it must be": lambda: stream("clicks", CLICK, event_time="cents"),
    "schema: user has type <class 'str'>; give a type of Polars": lambda: stream(
        "clicks", {"at": TIMESTAMP, "user": str}, event_time="at"
    ),
    "column user has type <class 'str'>; give a type of Polars": lambda: required("user", str, "Who"),
    "stream clicks: duplicate_window is 'a week': write a number and s, m, h or d": lambda: stream(
        "clicks", CLICK, event_time="at", duplicate_window="a week"
    ),
    "stream clicks: schema: declare at least one column": lambda: stream("clicks", {}, event_time="at"),
    "event_id names click_id, which its schema does not have": lambda: stream(
        "clicks", CLICK, event_time="at", event_id="click_id"
    ),
    "rule free: broken is 'cents < 0'; it must be an expression, such as pl.col": lambda: stream(
        "clicks", CLICK, event_time="at", rules=(Rule("free", UNTYPED_CONDITION),)
    ),
    "job two words: name is .two words.: it must be lower-case": lambda: windows(
        "two words", CLICKS, {}, key="user", length="1h"
    ),
    "an input is of 'clicks'; give the Stream itself": lambda: per_hour("clicks"),
    "input clicks: where is 'cents > 3'; it must be an expression": lambda: UNTYPED.where("cents > 3"),
    "input clicks: derive: euros is 'cents / 100'; it must be an expression": lambda: UNTYPED.derive(
        euros="cents / 100"
    ),
    r"input clicks: explode is 'items'; it must be an expression, such as pl.col\('items'\)": lambda: UNTYPED.explode(
        "item", "items"
    ),
    "input clicks: explode: usr: there is no column usr; did you mean user": lambda: per_hour(UNTYPED.explode("usr")),
    "input clicks: delay is '5 minutes': write a number": lambda: Input(CLICKS, delay="5 minutes"),
    "input clicks: delay is '-5m'": lambda: Input(CLICKS, delay="-5m"),
    "input clicks: idle_timeout is 'soon'": lambda: Input(CLICKS, idle_timeout="soon"),
    "input clicks: idle_timeout is '0s': it must be positive": lambda: Input(CLICKS, idle_timeout="0s"),
    "stream clicks: Stream has no argument evnt_id; did you mean event_id": lambda: stream(
        "clicks", CLICK, "at", evnt_id="user"
    ),
    "stream clicks: event_time is missing": lambda: stream("clicks", CLICK),
    r"stream clicks: rules: 0 is 'free'; it must be of type Rule": lambda: stream(
        "clicks", CLICK, "at", rules=["free"]
    ),
    "stream clicks: done_marker is 1; it must be True or False": lambda: stream("clicks", CLICK, "at", done_marker=1),
    r"n is 'count'; it must be an aggregate, such as count\(\)": lambda: per_hour(of={"n": "count"}),
    "no column cent; did you mean cents": lambda: per_hour(of={"n": sum_of("cent")}),
    "the value of sum is 3; it must be a column's name": lambda: sum_of(3),  # type: ignore[arg-type]
    "collect: at_most is 0; it must be 1 or more": lambda: collect("cents", 0),
    "job hourly: n: String is no number": lambda: per_hour(of={"n": quantile("user", 0.5)}),
    r"job hourly: n: List\(String\) has no order": lambda: per_hour(of={"n": greatest(pl.col("user").str.split(" "))}),
    "job hourly: user is a column of the key, or one that the operator makes": lambda: per_hour(of={"user": count()}),
    "job hourly: window_end is a column of the key, or one that the operator makes": lambda: per_hour(
        of={"window_end": count()}
    ),
    "cannot be called '#slot'": lambda: per_hour(of={"#slot": count()}),
    "job hourly: output: n is uint32, which a Delta table cannot hold: take int64": lambda: per_hour(
        then={"n": pl.col("clicks").cast(pl.UInt32)}
    ),
    r"job visits: step is 7; it must be a function \(state, events, clock\)": lambda: job(step=7),
    "(?s)job visits: a table is .*; it must be Append": lambda: job(tables=[pa.schema(CLICK)]),
    "calendar: period is 'moth'; it must be one of day, week, month, quarter, year": lambda: Calendar(UNTYPED_PERIOD),
    "calendar: zone is 'Europe/Berln': not a time zone": lambda: Calendar("day", "Europe/Berln"),
    "job hourly: length is 3; it must be a duration, such as '30m' or text or of type Calendar": lambda: per_hour(
        length=3
    ),
    "job hourly: every is 1d; windows of the calendar follow one another": lambda: per_hour(
        length=Calendar("month"), every="1d"
    ),
    "job hourly: windows has no argument allowed_lateness; did you mean lateness": lambda: per_hour(
        allowed_lateness="1h"
    ),
    "lateness: allowed is '0s': it must be positive": lambda: Lateness(allowed="0s"),
    "lateness: allowed is '1x'": lambda: Lateness(allowed="1x"),
    "lateness: no row changes without `allowed` or `while_open`": lambda: Lateness(changes=True),
    "job hourly: lateness is '1h'; it must be of type Lateness": lambda: per_hour(lateness="1h"),
    "job hourly: keep_max and top cannot be combined": lambda: per_hour(
        keep_max="clicks", top=Top(n=1, highest="clicks"), by="user"
    ),
    "job hourly: top is for windows that do not overlap": lambda: per_hour(
        every="30m", top=Top(n=1, highest="clicks"), by="user"
    ),
    "job hourly: top ranks the groups of a window; give their columns as `by`": lambda: per_hour(
        top=Top(n=1, highest="clicks")
    ),
    "job hourly: give the columns of its key as `key`": lambda: per_hour(key=()),
    "top: n is 0; it must be 1 or more": lambda: Top(n=0, highest="clicks"),
    r"where: .*mean\(\).* takes several rows together": lambda: CLICKS.where(CENTS.mean() < CENTS),
    r'derive: before: col\("cents"\).shift.* takes several rows together': lambda: CLICKS.derive(before=CENTS.shift()),
    r"derive: rank: len\(\) takes several rows together": lambda: CLICKS.derive(rank=CENTS / pl.len()),
    r"then: share: .*sum\(\) takes several rows together": lambda: per_hour(
        then={"share": pl.col("clicks") / pl.col("clicks").sum()}
    ),
    r"the value of sum: .*over.* takes several rows together": lambda: sum_of(CENTS.max().over("user")),
    "then: share is 'clicks'; it must be an expression": lambda: per_hour(then={"share": "clicks"}),
    "then: clicks is a column that the job goes by": lambda: per_hour(then={"clicks": pl.col("clicks") * 2}),
    "count: where is 'n'; it must be a condition": lambda: count(UNTYPED_NAME),
    "job hourly: of is .*; it must be a dict": lambda: per_hour(of=[count()]),
    r"job j: key is .*col\(\"user\"\).*; it must be text or a list": lambda: windows(
        "j", CLICKS, COUNTED, key=UNTYPED_KEY, length="1h"
    ),
    "output: there is no column click to write; did you mean clicks": lambda: per_hour(
        output={"user": pl.String, "click": pl.Int64, "clicks": pl.Int64}
    ),
    "least is int64, and declared as string: declare it as int64": lambda: per_hour(
        of={"least": min_of("cents"), **COUNTED}, output={"user": pl.String, "clicks": pl.Int64, "least": pl.String}
    ),
    "paid is double, and declared as float: declare it as double": lambda: per_hour(
        of={"paid": sum_of(CENTS / 2), **COUNTED}, output={"user": pl.String, "clicks": pl.Int64, "paid": pl.Float32}
    ),
    "keep_max is 'paid'; it must be of `by`": lambda: per_hour(keep_max="paid"),
    "highest is 'paid'; it must be an aggregate": lambda: windows(
        "j", CLICKS, COUNTED, length="1h", by="user", top=Top(n=1, highest="paid")
    ),
    "keep: there is no column cent; did you mean cents": lambda: rows(
        "j", CLICKS, keep=Highest("at", ties="cent"), key="user"
    ),
    "highest: n is 0; it must be 1 or more": lambda: Highest("at", n=0),
    "first: expires is '0s': it must be positive": lambda: First(expires="0s"),
    "last: expires is 'soon': write a number": lambda: Last(expires="soon"),
    r"job j: keep is 'last'; it must be of type First or of type Last or of type Highest": lambda: rows(
        "j", CLICKS, keep=UNTYPED_HOW_TO_KEEP, key="user"
    ),
    "input clicks: at: there is no column seen": lambda: per_hour(Input(CLICKS, "seen")),
    "input clicks: at is seen_at, which may be NULL": lambda: per_hour(Input(SEEN, "seen_at")),
    r"key column half may be NULL.*derive it with `fill_null`.*where\(pl.col\('cents'\)": lambda: windows(
        "j", CLICKS.derive(half=CENTS // 2), COUNTED, key="half", length="1h"
    ),
    "job j: conditions is empty": lambda: alert("j", CLICKS, {}, key="user"),
    r"job j: conditions: dear is .*; it must be of type Held or of type Listed": lambda: alert(
        "j", CLICKS, {"dear": UNTYPED_ALERT}, key="user"
    ),
    "held: begins is 'cents > 3'; it must be an expression": lambda: held("cents > 3"),
    "dear: begins: there is no column cent; did you mean cents": lambda: held(pl.col("cent") > 3),
    r'dear: begins is col\("cents"\), which is int64; it must be true or false': lambda: held(CENTS),
    "pattern dear: again is .*, which is int64; it must be true or false": lambda: pattern(
        "j", CLICKS, {"dear": Pattern({"once": DEAR, "again": CENTS}, within="1h")}, key="user"
    ),
    "Until: condition: there is no column cent; did you mean cents": lambda: sessions(
        "j",
        CLICKS,
        {"n": count(), "since": first("at")},
        until=Until(pl.col("cent") > 3, closed_for="1h"),
        key="user",
        gap="1h",
    ),
    "how is 'outer'; it must be one of inner, left": lambda: as_of_join(
        "j", LEFT, RIGHT, "user", within="1h", how=UNTYPED_HOW
    ),
    "key: input l: there is no column usr; did you mean user": lambda: as_of_join("j", LEFT, RIGHT, "usr", within="1h"),
    "rule 'dear': there is no column cent; did you mean cents": lambda: stream(
        "clicks", CLICK, event_time="at", rules=(Rule("dear", pl.col("cent") > 3),)
    ),
    r"rule 'dear': .*mean\(\) takes several rows together": lambda: stream(
        "clicks", CLICK, event_time="at", rules=(Rule("dear", CENTS.mean() < CENTS),)
    ),
    r"an input is of the job hourly; give .* a table of a job \(`job.table\(\)`\)": lambda: per_hour(per_hour()),
    r"say which column of hourly has the event's time: Input\(hourly, at='…'\)": lambda: windows(
        "j", per_hour().table(), COUNTED, key="user", length="1d"
    ),
    "final_at: .*max.* takes several rows together": lambda: job(inputs=Input(CLICKS, final_at=pl.col("at").max())),
    "table visits: the key lacks user of the job's key": lambda: job(tables=Upsert({"n": pl.Int64}, "n")),
    "table: events is 'n'; it must be an expression, such as pl.col": lambda: job(
        tables=Append(CLICK, events=UNTYPED_NAME)
    ),
    "parameter: change is 'never'; it must be one of free, migrate, refresh": lambda: parameter(1, change=NEVER),
    "lookup p.csv: key names usr, which its columns lack": lambda: Lookup("p.csv", {"user": pl.String}, "usr"),
    "key's column user is string in clicks, and int64 in l": lambda: lookup_join(
        "j", CLICKS, ("l", Lookup("p.csv", {"user": pl.Int64, "age": pl.Int64}, "user"))
    ),
    "run: the job is 'visits'; it must be a KeyedJob, and not its name": lambda: keyfold.run(
        Lakehouse("h"), UNTYPED_JOB
    ),
    "run: the lakehouse is 'visits'; it must be a Lakehouse": lambda: keyfold.run(UNTYPED_JOB, job()),
    "ingest: the stream is 'visits'; it must be a Stream": lambda: keyfold.ingest(Lakehouse("h"), UNTYPED_JOB),
    "ingest: settle is 'soon': write a number": lambda: keyfold.ingest(Lakehouse("h"), CLICKS, settle="soon"),
    "user is uint8, which a Delta table": lambda: Append({"user": pl.UInt8}),
    "key has no column usr; it has user": lambda: Upsert({"user": pl.String}, "usr"),
}


@pytest.mark.parametrize("message", FAULTS)
def test_a_fault_is_found_where_it_is_declared(message: str):
    with pytest.raises(Misconfigured, match=message):
        FAULTS[message]()


def test_a_schema_is_a_dict_or_a_list_and_names_may_be_one_text():
    stream = Stream("clicks", {"id": pl.Int64, "at": TIMESTAMP, "on": pl.Date}, event_time="at", event_id="id")  # type: ignore[arg-type]
    assert stream.schema == pa.schema(
        [pa.field("id", pa.int64(), nullable=False), pa.field("at", TIMESTAMP, nullable=False), ("on", pa.date32())]
    )
    assert stream.event_id == ("id",)
    lookup = Lookup("p.csv", {"user": pl.String, "age": pl.Int64}, "user")
    declared = pa.schema([pa.field("user", pa.string(), nullable=False), ("age", pa.int64())])
    assert replace(lookup, path="q.csv") == Lookup("q.csv", declared, ("user",))


def test_types_of_polars_and_lengths_as_text_say_the_same_as_types_of_arrow_and_lengths():
    of_polars = [required("user", pl.String, "Who"), required("at", pl.Datetime("us", "UTC"), "When"), CLICK[2]]
    assert Stream("clicks", of_polars, event_time="at", max_age="30d", future_bound="12h") == Stream(  # type: ignore[arg-type]
        "clicks", CLICK, event_time="at", max_age=timedelta(days=30), future_bound=timedelta(hours=12)
    )


class Gap(JobParameters):
    gap: Duration = timedelta(minutes=30)
    least: int = Field(1, ge=1, le=5)
    names: dict[str, int] = Field(default_factory=dict)


@pytest.mark.parametrize(
    ("values", "quoted", "unquoted"),
    [
        ({"gap": "soon"}, "gap is 'soon': write a number and s,", "V_GAP: write a number and s,"),
        ({"least": 0}, "least is 0; it must be 1 or more", "V_LEAST must be 1 or more"),
        ({"least": 7}, "least is 7; it must be 5 at most", "V_LEAST must be 5 at most"),
        ({"least": "many"}, "least is 'many'; it must be a whole number", "V_LEAST must be a whole number"),
        ({"names": {"a": "x"}}, "names: a is 'x'; it must be a whole number", "V_NAMES: a must be a whole number"),
        (
            {"least": 0, "names": 1},
            "least is 0; it must be 1 or more; names is 1; it",
            "V_LEAST must be 1 or more; V_NAMES",
        ),
        (
            {"leest": 2},
            "Gap has no parameter leest; did you mean least? There",
            "Gap has no parameter leest; did you mean",
        ),
    ],
)
def test_values_from_outside_have_the_errors_of_a_declaration_and_secrets_are_not_repeated(values, quoted, unquoted):
    with pytest.raises(Misconfigured, match=f"^job visits: {re.escape(quoted)}"):
        validated(Gap, values, "job visits", noun="parameter")
    with pytest.raises(Misconfigured, match=f"^{re.escape(unquoted)}"):
        validated(Gap, values, "", noun="parameter", quotes=False, says=lambda field: f"V_{field.upper()}")


def test_values_that_fit_make_the_model():
    assert validated(Gap, {"gap": "90s", "least": 5}, "job visits") == Gap(gap=timedelta(seconds=90), least=5)  # type: ignore[call-arg]
