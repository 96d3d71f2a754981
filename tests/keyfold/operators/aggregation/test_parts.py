"""Aggregates that are kept in parts are those of all values of a group, in any order, any split into runs, slices and parts."""

import math
from collections import defaultdict
from datetime import timedelta
from fractions import Fraction
from functools import partial

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold import Append, Input, Misconfigured, Stream, Timeout, required
from keyfold.columns import lineage_of
from keyfold.keyed.rows.exact_sums import TotalTooLargeError
from keyfold.operators import (
    Held,
    Top,
    Until,
    While,
    alert,
    collect,
    count,
    count_distinct,
    distinct,
    first,
    last,
    last_n,
    max,
    mean,
    min,
    over_pairs,
    quantile,
    running,
    sessions,
    sum,
    sum_of_decreases,
    totals,
    windows,
)
from keyfold.operators.aggregation.parts import TooManyValuesError
from keyfold.testing import play
from tests.examples import examples
from tests.on_a_grid import many_of
from tests.shop import HOUR, NOON

TIME = pa.timestamp("us", tz="UTC")
READ = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("room", pa.string(), nullable=False),
        pa.field("at", TIME, nullable=False),
        ("heat", pa.float64()),
        ("people", pa.int64()),
    ]
)
READINGS = Stream("readings", READ, event_time="at", event_id=("id",))
READ_WHOLE = Input(READINGS, columns=READ)
OF = {
    "heat_sum": sum("heat"),
    "heat_mean": mean("heat"),
    "people_mean": mean("people"),
    "heat_first": first("heat"),
    "people_last": last("people"),
    "crowds": count_distinct("people"),
    "median": quantile("people", 0.5),
    "all_people": collect("people"),
}
OPERATORS = {
    "windows": lambda: windows("w", READINGS, OF, key="room", length="1h"),
    "overlapping windows": lambda: windows("w", READINGS, OF, key="room", length="1h", every="30m"),
    "sessions": lambda: sessions("w", READINGS, OF, key="room", gap="10h"),
    "totals": lambda: totals("w", READINGS, OF, key="room"),
}
# All in one window and one session, at few moments.
ROW = st.tuples(
    st.sampled_from("ab"),
    st.integers(0, 3).map(lambda step: NOON + step * timedelta(minutes=5)),
    st.none()
    | st.floats(-1e3, 1e3)
    | st.sampled_from([1e300, -1e300, 5e-324, -0.0, 1 / 3, 2.0**-40, 2.0**32, 2.0**31]),
    st.none() | st.integers(-5, 5),
)


def readings(rows):
    kinds = {"room": pl.String, "at": pl.Datetime("us", "UTC"), "heat": pl.Float64, "people": pl.Int64}
    return pl.DataFrame(rows, schema=kinds, orient="row").with_row_index("id").cast({"id": pl.Int64})


def by_hand(rows):
    """The aggregates of each room, by plain Python."""
    rooms, found = defaultdict(list), {}
    for row in rows:
        rooms[row[0]].append(row)
    for room, events in rooms.items():
        # Simultaneous events by the columns that the job reads, missing values first.
        events.sort(key=lambda one: (one[1], *((value is not None, value or 0) for value in one[2:])))
        heats = [one[2] for one in events if one[2] is not None]
        people = [one[3] for one in events if one[3] is not None]
        total, ordered = Fraction(0), sorted(people)
        for heat in heats:
            total += Fraction(heat)
        middle = len(ordered) // 2
        halves = ordered[middle - 1 + len(ordered) % 2 : middle + 1]
        found[room] = {
            "heat_sum": total,
            "heat_mean": total / len(heats) if heats else None,
            "people_mean": math.fsum(people) / len(people) if people else None,
            "heat_first": events[0][2],
            "people_last": events[-1][3],
            "crowds": len({*people}),
            "median": math.fsum(halves) / len(halves) if halves else None,
            "all_people": [one[3] for one in sorted(events, key=lambda one: (one[1], one[3] is not None, one[3] or 0))],
        }
    return found


@examples(200)
@given(st.data(), many_of(ROW, 12), st.sampled_from(list(OPERATORS)), st.integers(1, 3))
def test_aggregates_are_those_of_all_values_in_any_order_and_split(data, rows, operator, parts):
    job, came = OPERATORS[operator](), readings(rows)
    shuffled = came[data.draw(st.permutations(range(came.height)))]
    cut = data.draw(st.integers(0, came.height))
    written = []
    # What is in open state has not been written, so later runs are not late.
    for runs in ([came], [shuffled[:cut], shuffled[cut:]]):
        harness = play(job, runs, NOON + timedelta(days=2), parts, [])
        table = harness.written["w"]
        written.append(table.sort("room", *[one for one in table.columns if one.startswith("window")]))
    assert written[0].equals(written[1])
    expected = by_hand(rows)
    for row in written[0].to_dicts():
        wanted = expected[row["room"]]
        largest = float(np.max([abs(one[2]) for one in rows if one[0] == row["room"] and one[2] is not None] or [0]))
        for name in OF:
            got, right = row[name], wanted[name]
            if name in ("heat_sum", "heat_mean") and right is not None:
                # Rounded once; what is 64 bits below the largest value, or below all scales, is left out.
                left_out = Fraction(largest) * Fraction(2) ** -60 + Fraction(2) ** -1050
                assert abs(Fraction(got) - right) <= abs(right) * Fraction(2) ** -52 + left_out
            else:
                assert got == right, name


def test_a_sum_with_values_that_are_not_finite_is_python_s():
    inf, nan = math.inf, math.nan
    for heats, told in (
        ([1.0, inf], inf),
        ([1e289, inf], inf),
        ([-inf, 1e300], -inf),
        ([inf, -inf], nan),
        ([nan, 1.0], nan),
    ):
        came = readings([("a", NOON, heat, None) for heat in heats])
        harness = play(OPERATORS["windows"](), [came[:1], came[1:]], NOON + 2 * HOUR, 1, [])
        assert str(harness.written["w"]["heat_sum"].item()) == str(told)


def test_more_values_than_are_kept_are_an_error_with_what_to_do():
    three = readings([("a", NOON, None, number % 3) for number in range(3)])
    for job in (
        windows("w", READINGS, {"crowds": count_distinct("people", at_most=3)}, key="room", length="1h"),
        running("w", READ_WHOLE, {"crowds": count_distinct("people", at_most=3)}, key="room"),
        running("w", READ_WHOLE, {"crowds": collect("people", at_most=3)}, key="room"),
    ):
        assert play(job, [three], NOON + 2 * HOUR, 1, []).written["w"]["crowds"].to_list()[-1] in (3, [0, 1, 2])
        with pytest.raises(
            TooManyValuesError, match="crowds has 4 values in one group, and keeps at most 3: give a larger"
        ):
            play(job, [three, readings([("a", NOON, None, 7)])], NOON + 2 * HOUR, 1, [])


@examples(100)
@given(st.data(), many_of(ROW, 12), st.sampled_from([None, Timeout(timedelta(minutes=7))]))
def test_a_row_of_running_has_the_values_of_its_key_so_far(data, rows, expiry):
    of = {name: OF[name] for name in ("heat_first", "people_last", "people_mean", "crowds", "all_people")}
    job, came = running("w", READ_WHOLE, of, key="room", expiry=expiry), readings(rows).sort("at", "id")
    cut = data.draw(st.integers(0, came.height))
    runs = [part[data.draw(st.permutations(range(part.height)))] for part in (came[:cut], came[cut:])]
    written = play(job, runs, NOON + timedelta(days=2), 1, []).written["w"]
    expected, lives = [], defaultdict(list)
    for row in came.iter_rows(named=True):
        live = lives[row["room"]]
        if live and expiry is not None and row["at"] - live[-1]["at"] > expiry.after:
            live.clear()
        live.append(row)
        people, told = [one["people"] for one in live], known(live)
        average = float(np.mean(told)) if told else None
        expected.append((row["id"], live[0]["heat"], people[-1], average, len({*told}), people))
    assert sorted(written.select("id", *of).rows(), key=repr) == sorted(expected, key=repr)


ROOM, N = READ.field("room"), pa.field("n", pa.int64(), nullable=False)
FACT = pa.schema([*READ, ("tags", pa.list_(pa.string())), ("price", pa.decimal128(10, 2))])
FACTS = Input(Stream("facts", FACT, event_time="at"), columns=FACT)
SILENCE = Timeout(timedelta(hours=9))
# What each is of events in order: of whole numbers that may be missing, ids, and lists of texts.
AGGREGATES = {
    "sum": (sum("people"), pa.int64(), lambda rows: np.sum(known(rows))),
    "min": (min("people"), pa.int64(), lambda rows: np.min(known(rows))),
    "max": (max("people"), pa.int64(), lambda rows: np.max(known(rows))),
    "mean": (mean("people"), pa.float64(), lambda rows: np.mean(known(rows))),
    "first": (first("people"), pa.int64(), lambda rows: rows[0]["people"]),
    # Of another column than `sum_of_decreases`, which keeps the last known value of its own.
    "last": (last(pl.when(pl.col("id") % 2 == 0).then("id")), pa.int64(), lambda rows: even(rows[-1]["id"])),
    "count_distinct": (count_distinct("people"), pa.int64(), lambda rows: len({*known(rows)})),
    "quantile": (quantile("people", 0.25), pa.float64(), lambda rows: np.quantile(known(rows), 0.25)),
    "collect": (collect("id"), pa.list_(pa.int64()), lambda rows: [row["id"] for row in rows]),
    "distinct": (
        distinct("tags"),
        FACT.field("tags").type,
        lambda rows: sorted({*rows[0]["tags"]}.union(*(row["tags"] for row in rows))),
    ),
    "over_pairs": (
        over_pairs((pl.col("id") - pl.col("id").shift()).abs()),
        pa.int64(),
        lambda rows: np.sum(np.abs(np.diff([row["id"] for row in rows]))),
    ),
    "sum_of_decreases": (
        sum_of_decreases(pl.col("people")),
        pa.int64(),
        lambda rows: np.sum(np.maximum(-np.diff(known(rows)), 0)),
    ),
}
IN_ORDER = {*AGGREGATES}
IN_ANY_ORDER = IN_ORDER - {"over_pairs", "sum_of_decreases"}
# The id is read, by which simultaneous events are ordered before other columns.
NEWEST, SINCE = {"newest": max("id")}, {"since": first("at")}
COUNTED = pl.col("n").sum()
# A job, the last row of which is of all events; what it needs besides; and the aggregates that the operator has.
HAVE = {
    "windows": (lambda of, _: windows("w", FACTS, of, key="room", length="1d"), NEWEST, IN_ANY_ORDER),
    "overlapping": (lambda of, _: windows("w", FACTS, of, key="room", length="1d", every="12h"), NEWEST, IN_ANY_ORDER),
    "sessions": (lambda of, _: sessions("w", FACTS, of, key="room", gap="10h"), NEWEST, IN_ANY_ORDER),
    "totals": (lambda of, _: totals("w", FACTS, of, key="room"), NEWEST, IN_ANY_ORDER),
    "top": (
        lambda of, output: windows(
            "w", FACTS, of, length="1d", by="room", output=output, counted="n",
            top=Top(n=1, highest="n", whole=Append(pa.schema([N]), name="all", events=COUNTED)),
        ),
        NEWEST,
        IN_ANY_ORDER,
    ),
    "last_n": (
        lambda of, _: last_n(
            "w", FACTS, of, n=50, key="room", gap=SILENCE, from_n=1,
            sessions=Append(pa.schema([ROOM, N]), name="ended", events=COUNTED),
        ),
        {},
        IN_ORDER,
    ),
    "running": (lambda of, _: running("w", FACTS, of, key="room"), {}, IN_ANY_ORDER - {"quantile"}),
    "sessions until": (
        lambda of, _: sessions("w", FACTS, of, until=Until(pl.lit(value=False), closed_for="1m"), key="room", gap=SILENCE),
        SINCE,
        IN_ORDER,
    ),
    "sessions while": (
        lambda of, output: sessions(
            "w", FACTS, of, key="room", gap=SILENCE, output=output,
            while_=While(pl.lit(value=True), pause="1m", between=Append(pa.schema([N]), name="between", events=COUNTED)),
        ),
        SINCE,
        IN_ORDER,
    ),
}  # fmt: skip


def even(number):
    return None if number % 2 else number


def known(rows):
    return [row["people"] for row in rows if row["people"] is not None]


@pytest.mark.parametrize("operator", list(HAVE))
def test_an_operator_gives_what_an_aggregate_is_or_says_which_it_has(operator):
    draw = np.random.default_rng(1)
    facts = [
        {
            "id": number,
            "room": "a",
            "at": NOON - int(draw.integers(1, 10)) * timedelta(minutes=5),
            "heat": None,
            "people": None if draw.random() < 0.2 else int(draw.integers(0, 5)),
            "tags": [*map(str, draw.choice([*"xyz"], 2))],
        }
        for number in draw.permutation(30).tolist()
    ]
    came, in_order = pl.DataFrame(facts, schema=pl.Schema(FACT)), sorted(facts, key=lambda row: (row["at"], row["id"]))
    # The second run is of what is not late: the newest time.
    is_new = came["at"] == came["at"].max()
    make, more, has = HAVE[operator]
    has = sorted(has)
    output = pa.schema([ROOM, N, *((name, AGGREGATES[name][1]) for name in has)])
    job = make({"n": count(), **more, **{name: AGGREGATES[name][0] for name in has}}, output)
    harness = play(job, [came.filter(~is_new), came.filter(is_new)], NOON + timedelta(days=2), 2, [])
    rows = harness.written["w"].filter(pl.col("n") == len(facts)).to_dicts()
    for name in has:
        assert rows[0][name] == AGGREGATES[name][2](in_order), name
    output = pa.schema([ROOM, N])
    for name in AGGREGATES.keys() - {*has}:
        with pytest.raises(Misconfigured, match=f"job w: x is made by {name}; .* has count, "):
            make({"n": count(), **more, "x": AGGREGATES[name][0]}, output)


@pytest.mark.parametrize(
    ("of", "told"),
    [
        ({"x": mean("room")}, "job w: x: String is no number"),
        ({"x": mean("heet")}, "job w: x.*heet"),
        ({"x": over_pairs(pl.col("people"))}, "job w: x is made by over_pairs; this operator has count, sum"),
        ({"x": distinct("room")}, "job w: x: distinct is of the elements of lists, and this is String"),
    ],
)
def test_an_aggregate_that_does_not_fit_is_refused_where_the_job_is_made(of, told):
    with pytest.raises(Misconfigured, match=told):
        windows("w", READINGS, of, key="room", length="1h")
    with pytest.raises(Misconfigured, match="a quantile is from 0 to 1"):
        quantile("heat", 50)


def test_several_first_values_have_one_time_and_one_order_in_state():
    job = totals(
        "w", READINGS, {"heat": first("heat"), "people": first("people"), "last_people": last("people")}, key="room"
    )
    made = [name for name in job.state.schema.names if name.endswith(("_at", "_ties"))]
    assert made == ["first_at", "first_ties", "last_at", "last_ties"]


@pytest.mark.parametrize("operator", list(HAVE))
def test_a_sum_that_its_column_does_not_hold_is_refused(operator):
    make, more, _ = HAVE[operator]
    job = make({"n": count(), **more, "x": sum("people")}, pa.schema([ROOM, N, ("x", pa.int64())]))
    rows = [{"id": hour, "room": "a", "at": NOON + hour * HOUR, "people": 2**62} for hour in range(2)]
    came = pl.DataFrame(rows, schema=pl.Schema(FACT))
    with pytest.raises(TotalTooLargeError, match=r"total of (x|people) does not fit into Int64"):
        play(job, [came[:1], came[1:]], NOON + timedelta(days=2), 2, [])


def test_columns_are_of_the_events_that_they_come_from():
    job = sessions(
        "w", FACTS, {"since": first("at"), "n": count(), "crowd": sum("people"), "heated": last("heat")},
        while_=While(pl.col("heat") > 0, pause="1m"), key="room", gap="1h",
        then={"share": pl.col("crowd") / pl.col("n"), "why": pl.col("ended"), "heated": pl.col("heated") * 2},
    )  # fmt: skip
    for table in job.own_tables:
        assert {field.name: set(lineage_of(field)) for field in table.schema} == {
            "room": {"room"},
            "since": {"at", "heat"},
            "n": {"at", "heat"},
            "crowd": {"people", "heat"},
            "heated": {"heat", "at"},
            "share": {"people", "at", "heat"},
            "why": {"heat", "at"},
        }
    number = required("n", pa.int64(), "Readings", lineage="id")
    declared = totals("w", READINGS, {"n": count()}, key="room", output=[ROOM, number])
    assert lineage_of(declared.main.schema.field("n")) == ("id",)
    of = totals("w", FACTS.stream.explode("tag", pl.col("tags")), {"warmest": max("heat")}, key="tag").main.schema
    assert {field.name: lineage_of(field) for field in of} == {
        "tag": ("tags",),
        "warmest": ("heat",),
        "n_events": ("at",),
    }


BY_KEY = {
    windows: {"of": {}, "length": "1h"},
    sessions: {"of": {}, "gap": "1h"},
    totals: {"of": {}},
    last_n: {"n": 2, "of": {}, "gap": "1h"},
    running: {"of": {}},
    partial(sessions, until=Until(pl.col("people") > 3, closed_for="1h")): {"of": {"n": count(), **SINCE}, "gap": "1h"},
    alert: {"conditions": {"MANY": Held(pl.col("people") > 3, pl.col("people") < 2)}},
}


@pytest.mark.parametrize("operator", list(BY_KEY), ids=lambda operator: getattr(operator, "__name__", "sessions until"))
@pytest.mark.parametrize(
    ("key", "told"), [("rooom", "there is no column rooom; did you mean room"), ("at", "at is the event time")]
)
def test_a_key_that_cannot_be_is_refused_where_the_job_is_made(operator, key, told):
    with pytest.raises(Misconfigured, match=f"job w: key: {told}"):
        operator("w", FACTS, key=key, output=pa.schema([ROOM, N]), **BY_KEY[operator])
