"""Every operator can be written in YAML, and makes the job that Python makes of the same arguments."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, get_args

import polars as pl
import pyarrow as pa
import pytest
import yaml
from polars.testing import assert_frame_equal

from keyfold import Append, Input, KeyfoldError, Lookup, Stream, TestHarness, operators
from keyfold.dagster.arguments import OPERATORS
from keyfold.dagster.components import KeyedJob
from keyfold.keyed.calling.harness import as_read
from keyfold.keyed.job.timeouts import Timeout
from keyfold.operators import (
    Calendar,
    First,
    Held,
    Highest,
    Last,
    Lateness,
    Next,
    Pattern,
    Then,
    Top,
    Until,
    While,
    Without,
    count,
    first,
    last,
    mean,
    quantile,
    sum,
)
from keyfold.stream import TIMESTAMP

USER = pa.field("user", pa.string(), nullable=False)
AT = pa.field("at", TIMESTAMP, nullable=False)
STREAMS = {
    "clicks": Stream(
        "clicks", pa.schema([USER, AT, ("page", pa.string()), pa.field("cents", pa.int64(), False)]), event_time="at"
    ),
    "sales": Stream(
        "sales", pa.schema([USER, pa.field("sold_at", TIMESTAMP, False), ("price", pa.int64())]), event_time="sold_at"
    ),
}
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
MINUTES = (0, 1, 7, 9, 20, 58, 61, 62, 130)
CLICKS = pl.DataFrame(
    [
        (user, NOON + timedelta(minutes=minutes), "bye" if number % 4 == 3 else "hello", number * 7 % 11)
        for user in ("ann", "bob")
        for number, minutes in enumerate(MINUTES)
    ],
    schema={"user": pl.String, "at": pl.Datetime("us", "UTC"), "page": pl.String, "cents": pl.Int64},
    orient="row",
)
CLICKS = CLICKS.with_columns(ingested_at="at")
SALES = CLICKS.select("user", sold_at=pl.col("at") + timedelta(seconds=30), price=pl.col("cents") * 2)
PLACES = Lookup("places.csv", pa.schema([USER, ("city", pa.string())]), ("user",))
HOUR, M = timedelta(hours=1), timedelta(minutes=1)
CENTS, PAGE = pl.col("cents"), pl.col("page")
CLICK, SALE = Input(STREAMS["clicks"], delay="5m"), Input(STREAMS["sales"], columns=["user", "sold_at", "price"])
N = pa.schema([USER, pa.field("n", pa.int64())])


def rest(name: str):
    return Append({"user": pa.string(), "n": pa.int64()}, name=name, events=pl.col("n").sum())


SAID: dict[str, tuple[str, Any]] = {
    "alert": (
        "{conditions: {RICH: {Held: {begins: cents > 8, ends: cents < 3}}}, "
        "output: [{name: user, type: string, required: true}, {name: change, type: string}]}",
        {"conditions": {"RICH": Held(CENTS > 8, CENTS < 3)}, "output": pa.schema([USER, ("change", pa.string())])},
    ),
    "as_of_join": (
        "{right: {stream: sales, columns: [user, sold_at, price]}, within: 1h, how: inner}",
        {"right": SALE, "within": "1h", "how": "inner"},
    ),
    "interval_join": (
        "{right: [sold, {stream: sales, columns: [user, sold_at, price]}], earliest: 0s, latest: 10m}",
        {"right": ("sold", SALE), "earliest": 0 * M, "latest": 10 * M},
    ),
    "window_join": (
        "{right: {stream: sales, columns: [user, sold_at, price]}, length: 30m}", {"right": SALE, "length": "30m"}
    ),
    "lookup_join": (
        "{lookup: [places, {path: places.csv, key: [user], columns: [{name: user, type: string, required: true}, "
        "{name: city, type: string}]}]}",
        {"lookup": ("places", PLACES)},
    ),
    "last_n": (
        "{n: 2, of: {n: count, mean: mean(cents)}, gap: {after: 1h}, output: [{name: user, type: string, required: true}, "
        "{name: mean, type: double}], sessions: {name: rest, columns: {user: string, n: int64}, events: sum(n)}}",
        {"n": 2, "of": {"n": count(), "mean": mean("cents")}, "gap": Timeout(HOUR), "sessions": rest("rest"),
         "output": pa.schema([USER, ("mean", pa.float64())])},
    ),
    "rows": ("{keep: {Highest: {column: cents, n: 2}}}", {"keep": Highest("cents", n=2)}),
    "rows that are first": ("{keep: {First: {expires: 1h}}}", {"keep": First(HOUR)}),
    "rows that are last": ("{keep: {Last: {}}}", {"keep": Last()}),
    "pattern": (
        "{patterns: {left: {steps: {came: page = 'hello', went: {Without: {condition: page = 'bye'}}}, within: 15m}, "
        "gone: {steps: {came: page = 'hello', went: {Then: {condition: page = 'bye', where: cents > came_cents}}}, "
        "within: 10m}, twice: {steps: {came: cents > 5, again: {Next: {condition: cents > 5}}}, within: 1h}}, keep: [cents]}",
        {"patterns": {
            "left": Pattern({"came": PAGE == "hello", "went": Without(PAGE == "bye")}, "15m"),
            "gone": Pattern(
                {"came": PAGE == "hello", "went": Then(PAGE == "bye", where=pl.col("came_cents") < CENTS)}, within="10m"
            ),
            "twice": Pattern({"came": CENTS > 5, "again": Next(CENTS > 5)}, within=HOUR)},
         "keep": ["cents"]},
    ),
    "running": (
        "{of: {n: count(page = 'hello'), spent: sum(cents)}, then: {left: spent - n}, expiry: {after: 30m, in_: event_time}}",
        {"of": {"n": count(PAGE == "hello"), "spent": sum("cents")}, "then": {"left": pl.col("spent") - pl.col("n")},
         "expiry": Timeout(30 * M)},
    ),
    "sessions": ("{of: {n: count}, gap: 5m}", {"of": {"n": count()}, "gap": "5m"}),
    "sessions until": (
        "{of: {since: first(at), n: count}, until: {condition: page = 'bye', closed_for: 1h}, gap: {after: 30m}}",
        {"of": {"since": first("at"), "n": count()}, "until": Until(PAGE == "bye", "1h"), "gap": Timeout(30 * M)},
    ),
    "sessions while": (
        "{of: {since: first(at), until: last(at), n: count}, gap: {after: 1h}, output: "
        "[{name: user, type: string, required: true}, {name: n, type: int64}], while_: {condition: page = 'hello', pause: 5m, "
        "between: {name: rest, columns: {user: string, n: int64}, events: sum(n)}}}",
        {"of": {"since": first("at"), "until": last("at"), "n": count()}, "gap": Timeout(HOUR), "output": N,
         "while_": While(PAGE == "hello", "5m", rest("rest"))},
    ),
    "totals": (
        "{of: {n: count, most: 'quantile(cents * 2, 0.9)'}, key_groups: 8}",
        {"of": {"n": count(), "most": quantile(CENTS * 2, 0.9)}, "key_groups": 8},
    ),
    "windows": (
        "{of: {n: count}, length: {period: day, zone: Europe/Berlin}, lateness: {while_open: true}}",
        {"of": {"n": count()}, "length": Calendar("day", "Europe/Berlin"), "lateness": Lateness(while_open=True)},
    ),
    "windows of the top": (
        "{of: {cents: sum(cents)}, by: page, length: 1h, output: {page: string, cents: int64}, top: {n: 1, highest: cents, "
        "whole: {name: hours, columns: {window_start: timestamp, n_events: int64}, events: sum(n_events)}}}",
        {"of": {"cents": sum("cents")}, "by": "page", "length": "1h",
         "output": pa.schema([("page", pa.string()), ("cents", pa.int64())]),
         "top": Top(n=1, highest="cents", whole=Append(
             {"window_start": TIMESTAMP, "n_events": pa.int64()}, name="hours", events=pl.col("n_events").sum()
         ))},
    ),
}  # fmt: skip


WITHOUT_KEY = ("windows of the top", "lookup_join")


def in_yaml(operator: str, arguments: Any, **others: Any):
    """The job of a component."""
    attributes = {
        "name": "job",
        "stream": "clicks",
        "operator": operator,
        "delay": "5m",
        "key": "user",
        "arguments": arguments,
    }
    return KeyedJob.model_validate(attributes | others).declared(STREAMS.__getitem__)


def played(job: Any):
    """What a job writes and keeps, of three batches."""
    harness = TestHarness(job)
    for since in (0, 4, 7):
        came = {"clicks": CLICKS, "sales": SALES}
        given = {name: came[one.stream.name].slice(since, 6) for name, one in job.inputs.items()}
        for name in job.lookups:
            given[name] = pl.DataFrame({"user": ["ann"], "city": ["Oslo"]})
        harness.batch(given, advance_to=NOON + MINUTES[since] * M)
    return SimpleNamespace(written=harness.written, state=harness.state)


def test_every_operator_is_a_choice_and_has_a_case():
    assert (
        set(get_args(KeyedJob.model_fields["operator"].annotation))
        == set(OPERATORS)
        == {case.split()[0] for case in SAID}
    )


@pytest.mark.parametrize("case", SAID)
def test_yaml_makes_the_job_that_python_makes(case):
    (text, arguments), operator = SAID[case], case.split()[0]
    key = () if case in WITHOUT_KEY else "user"
    declared = getattr(operators, operator)("job", CLICK, **({"key": key} if key else {}), **arguments)
    ours, theirs = played(in_yaml(operator, yaml.safe_load(text), key=key)), played(declared)
    assert ours.written.keys() == theirs.written.keys()
    assert any(frame.height for frame in theirs.written.values())
    for name, frame in theirs.written.items():
        assert_frame_equal(ours.written[name], frame, check_row_order=False)
    assert_frame_equal(ours.state, theirs.state, check_row_order=False)


def test_an_input_is_refined_in_yaml_as_a_stream_is_in_python():
    text = "{where: cents > 3, derive: {double: cents * 2}, explode: {column: part, values: \"STRING_TO_ARRAY(page, 'l')\"}}"
    ours = in_yaml("totals", {"of": {"n": "count"}}, key=["part", "double"], input=yaml.safe_load(text)).only_input
    refined = STREAMS["clicks"].where(CENTS > 3).derive(double=CENTS * 2).explode("part", PAGE.str.split("l"))
    theirs = as_read(Input(refined, columns=["part", "double", "at"]), CLICKS)
    assert_frame_equal(as_read(ours, CLICKS).select(theirs.columns), theirs)


@pytest.mark.parametrize(
    ("operator", "arguments", "message"),
    [
        (
            "alert",
            {"conditions": {"A": {"Listed": {"find": "areas"}}}},
            "A: find is a function, which YAML does not have",
        ),
        ("pattern", {"patterns": {"p": {"steps": {"b": {"Nxt": {}}}}}}, "steps: b is {'Nxt': {}}; name one of .*Next"),
        ("totals", {"of": "count"}, "of is 'count'; give a mapping"),
        ("sessions", {"gap": {"after": "soon"}}, "gap: after .*write a number and s, m, h or d"),
        ("running", {"of": {"n": "count"}, "output": [{"name": "user", "type": "text"}]}, "output: 1 validation error"),
        (
            "last_n",
            {"sessions": {"name": "a", "columns": {"n": "number"}}},
            "columns: n is 'number'; give one of string",
        ),
        ("totals", {"of": {"n": "quantile(cents, 7)"}}, "of: n: .*7"),
        ("windows", {"of": {"n": "count"}, "length": "1h", "input": 1}, "windows.*input|unexpected"),
        (
            "interval_join",
            {"right": {"stream": "sales", "wher": "price > 1"}},
            "right: Input has no argument wher; did you mean where",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_place(operator, arguments, message):
    with pytest.raises(KeyfoldError, match=message):
        in_yaml(operator, arguments)
