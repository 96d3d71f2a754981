"""Every argument of every operator, each with another value: what `test_declarations` changes, one at a time.

A new argument needs a line here; `test_declarations` fails without one.
"""

from datetime import timedelta

import polars as pl
import pyarrow as pa

from keyfold import Append, Input, Lookup, Timeout, Upsert, required
from keyfold.keyed.job.parameters import WindowShape
from keyfold.operators import (
    Held,
    Last,
    Lateness,
    Listed,
    Pattern,
    Then,
    Top,
    Until,
    While,
    alert,
    as_of_join,
    buffer,
    count,
    first,
    interval_join,
    last_n,
    lookup_join,
    max,
    min,
    pattern,
    rows,
    running,
    sessions,
    sum,
    totals,
    window_join,
    windows,
)
from tests.keyfold.keyed.generation.declaring import EVENT, KIND, KM, OTHERS, RIDES, Changed, Declared


def is_near(events):
    return events.select(row=pl.int_range(pl.len()), subject=pl.lit("a"), begins=pl.lit(value=True))


def sent_off(events, clock):
    return {"calls": events.drop("batch")}


def sent_back(events, clock):
    return {"calls": events.drop("batch").reverse()}


def named() -> Changed:
    return Changed("other", kind="move")


SOURCE = Changed(RIDES.where(KM > 1))
KEY = Changed(("user", "kind"))
OF = {"n_rides": count(), "longest": max("km")}
SETTINGS = Changed(None)
_FIRST_AND_COUNT = {"since": first("at"), "n_rides": count(), "longest": max("km")}
_PATTERN = {"steps": {"one": KIND == "a", "two": Then(KIND == "b")}, "within": "1h"}
_JOIN = {
    "name": "joined", "left": ("rides", Input(RIDES, columns=("user", "at", "n"))), "key": "user",
    "right": ("others", Input(OTHERS.derive(more=KM), at="sent", columns=("user", "sent", "more"))),
}  # fmt: skip
_JOIN_CHANGES = {
    "name": named(),
    "left": Changed(("rides", Input(RIDES.where(KM > 1), columns=("user", "at", "n")))),
    "right": Changed(("others", Input(OTHERS.derive(more=KM * 2), at="sent", columns=("user", "sent", "more")))),
    "key": Changed(
        ("user", "kind"),
        along={
            "left": ("rides", Input(RIDES, columns=("user", "at", "n", "kind"))),
            "right": ("others", Input(OTHERS.derive(more=KM), at="sent", columns=("user", "sent", "more", "kind"))),
        },
    ),
}  # fmt: skip

OPERATORS = [
    Declared(
        windows,
        {"name": "w", "source": RIDES, "of": OF, "key": "user", "length": "1h"},
        {
            "name": named(), "source": SOURCE, "key": KEY, "settings": SETTINGS,
            "of": Changed({"n_rides": count(), "longest": min("km")}),
            "length": Changed("2h"),
            "every": Changed("20m", {"every": "30m"}),
            "by": Changed("kind"),
            "keep_max": Changed("n_rides", {"keep_max": "longest"}),
            "top": Changed(Top(n=3, highest="n_rides"), {"by": "kind", "top": Top(n=2, highest="n_rides")}),
            "lateness": Changed(Lateness(while_open=True)),
            "then": Changed({"far": KM > 4}, {"of": {"n_rides": count(), "km": max("km")}, "then": {"far": KM > 3}}, kind="move"),
            "output": Changed({"user": pl.String, "window_end": pl.Datetime("us", "UTC"), "n_rides": pl.Int64}, kind="move"),
            "counted": Changed("number"),
        },
    ),
    Declared(
        sessions,
        {"name": "s", "source": RIDES, "of": OF, "key": "user", "gap": "30m"},
        {
            "name": named(), "source": SOURCE, "key": KEY, "settings": SETTINGS,
            "of": Changed({"n_rides": count(), "longest": min("km")}),
            "gap": Changed("31m"),
            "until": Changed(Until(KIND == "stop", "1d"), {"of": _FIRST_AND_COUNT, "until": Until(KIND == "end", "1d")}),
            "while_": Changed(While(KM > 4, "5m"), {"of": _FIRST_AND_COUNT, "while_": While(KM > 3, "5m")}),
            "then": Changed({"far": pl.col("longest") > 2}, {"then": {"far": pl.col("longest") > 1}}, kind="move"),
            "selected": Changed([(Append({"user": pl.String}, name="long", events=pl.lit(0)), pl.col("n_rides") > 2)], {"selected": [(Append({"user": pl.String}, name="long", events=pl.lit(0)), pl.col("n_rides") > 1)]}),
            "output": Changed({"user": pl.String, "n_rides": pl.Int64}, kind="move"),
            "counted": Changed("number"),
        },
    ),
    Declared(
        running,
        {"name": "r", "source": RIDES, "of": {"n_rides": count(), "pieces": sum("n")}, "key": "user"},
        {
            "name": named(), "source": SOURCE, "key": KEY, "settings": SETTINGS,
            "of": Changed({"n_rides": count(), "pieces": min("n")}, {"of": {"n_rides": count(), "pieces": max("n")}}),
            "output": Changed({"user": pl.String, "at": pl.Datetime("us", "UTC"), "n_rides": pl.Int64}, kind="move"),
            "then": Changed({"half": pl.col("n_rides") / 2}, {"then": {"half": pl.col("n_rides") / 3}}, kind="move"),
            "latest": Changed(Upsert([required("user", pa.string(), "Who"), ("n_rides", pa.int64())], "user", name="now", events=pl.lit(0))),
            "at_once": Changed(True),
            "expiry": Changed(Timeout(timedelta(hours=2)), {"expiry": Timeout(timedelta(hours=1))}),
            "window": Changed(WindowShape(timedelta(hours=2), timedelta(hours=1)), {"window": WindowShape(timedelta(hours=2), timedelta(hours=2))}),
        },
    ),
    Declared(
        last_n,
        {"name": "l", "source": RIDES, "of": {"longest": max("km"), "n_rides": count()}, "n": 3, "key": "user", "gap": "30m"},
        {
            "name": named(), "source": SOURCE, "key": KEY, "settings": SETTINGS,
            "of": Changed({"longest": min("km"), "n_rides": count()}),
            "n": Changed(4),
            "gap": Changed("31m"),
            "from_n": Changed(2, {"from_n": 1}),
            "latest": Changed(Upsert([required("user", pa.string(), "Who"), ("longest", pa.float64())], "user", name="now", events=pl.lit(0))),
            "sessions": Changed(Append({"user": pl.String, "n_events": pl.Int64}, name="ended", events=pl.col("n_events").sum())),
            "output": Changed({"user": pl.String, "longest": pl.Float64}, kind="move"),
        },
    ),
    Declared(
        totals,
        {"name": "t", "source": RIDES, "of": OF, "key": "user"},
        {
            "name": named(), "source": SOURCE, "key": KEY, "settings": SETTINGS,
            "of": Changed({"n_rides": count(), "longest": min("km")}),
            "output": Changed({"user": pl.String, "n_rides": pl.Int64}, kind="move"),
            "then": Changed({"half": pl.col("n_rides") / 2}, {"then": {"half": pl.col("n_rides") / 3}}, kind="move"),
            "latest": Changed("newest", {"latest": "seen"}),
            "counted": Changed("number"),
            "changes": Changed(True),
        },
    ),
    Declared(
        rows,
        {"name": "t", "source": RIDES, "keep": Last(expires="1d"), "key": "user"},
        {
            "name": named(), "source": SOURCE, "key": KEY, "settings": SETTINGS,
            "keep": Changed(Last(expires="2d")), "counted": Changed("number"), "changes": Changed(True),
        },
    ),
    Declared(
        alert,
        {"name": "a", "source": RIDES, "conditions": {"FAR": Held(KM > 9, KM < 3)}, "key": "user"},
        {
            "name": named(), "source": SOURCE, "key": KEY, "settings": SETTINGS,
            "conditions": Changed({"FAR": Held(KM > 8, KM < 3)}),
            "output": Changed({"user": pl.String, "alert": pl.String, "change": pl.String}, kind="move"),
            "named": Changed("warning"),
            "subject": Changed("area", {"conditions": {"NEAR": Listed(is_near)}}),
        },
    ),
    Declared(
        buffer,
        {"name": "calls", "source": RIDES, "size": 3, "send": sent_off, "tables": [Append(EVENT)], "key": "user"},
        {
            "name": named(), "source": SOURCE, "key": KEY, "settings": SETTINGS,
            "size": Changed(4),
            "send": Changed(sent_back, kind="judge"),
            "tables": Changed([Append(EVENT), Append(EVENT, name="more", events=pl.len())], {"tables": [Append(EVENT), Append(EVENT, name="more")]}),
            "wait": Changed("2m", {"wait": "1m"}),
            "processing_wait": Changed("2m", {"processing_wait": "1m"}),
        },
    ),
    Declared(as_of_join, {**_JOIN, "within": "1h"}, {**_JOIN_CHANGES, "settings": SETTINGS, "within": Changed("2h"), "how": Changed("inner")}),
    Declared(
        interval_join,
        {**_JOIN, "earliest": timedelta(hours=-1), "latest": "1h"},
        {**_JOIN_CHANGES, "settings": SETTINGS, "earliest": Changed(timedelta(hours=-2)), "latest": Changed("2h"), "how": Changed("left")},
    ),
    Declared(window_join, {**_JOIN, "length": "1h"}, {**_JOIN_CHANGES, "settings": SETTINGS, "length": Changed("2h"), "how": Changed("left")}),
    Declared(
        lookup_join,
        {"name": "named", "events": Input(RIDES, columns=("user", "at")), "lookup": ("people", Lookup("p.csv", {"user": pl.String, "age": pl.Int64}, "user"))},
        {
            "name": named(), "settings": SETTINGS,
            "events": Changed(Input(RIDES.where(KM > 1), columns=("user", "at"))),
            "lookup": Changed(("people", Lookup("p.csv", {"user": pl.String, "size": pl.Int64}, "user"))),
            "how": Changed("inner"),
        },
    ),
    Declared(
        pattern,
        {"name": "p", "source": RIDES, "patterns": {"found": Pattern(**_PATTERN)}, "key": "user"},
        {
            "name": named(), "source": SOURCE, "key": KEY, "settings": SETTINGS,
            "patterns": Changed({"found": Pattern(**{**_PATTERN, "within": "2h"})}),
            "keep": Changed(("km",)),
        },
    ),
]  # fmt: skip
