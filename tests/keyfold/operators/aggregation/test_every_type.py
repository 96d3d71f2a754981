"""Every aggregate of every type is what plain Python says, in every operator, whatever of it the table has.

Of a plain column, of a derived one and of an expression; where the output is inferred, declared, and where it lacks what `then`
reads: 18,444 cases with `EXAMPLES=all`. The events come in two runs and any order, and state is written and read between.
"""

import random
from datetime import timedelta
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from keyfold import Append, Timeout
from keyfold import operators as op
from keyfold.lakehouse.reading import scan_table
from keyfold.testing import play
from tests.examples import ALL
from tests.keyfold.operators.aggregation.every_type import (
    EVENTS,
    KINDS,
    NOON,
    SIGNED,
    STREAM,
    TIME,
    aggregate_of,
    aggregates,
    by_hand,
    events,
    is_right,
    is_signed,
    type_of_aggregate,
    value_in,
)
from tests.lake import Lake

OUTPUTS = ["inferred", "declared", "then"]
FORMS = ["column", "derived", "expression"]
IN_PARTS = {"sum", "mean", "min", "max", "first", "last", "count_distinct", "quantile", "collect", "distinct"}
OF_TWO = {"over_pairs", "sum_of_decreases"}
SILENCE = Timeout(timedelta(hours=9))
NUMBER = Append({"number": pl.Int64}, name="others", events=pl.col("number").sum())
KEY: Any = {"key": "room"}
UNTIL: Any = {"until": op.Until(pl.lit(value=False), closed_for="1m"), "gap": SILENCE, **KEY}
WHILE: Any = {"while_": op.While(pl.lit(value=True), pause="1m", between=NUMBER), "gap": SILENCE, **KEY}

# The aggregates that each has, and whether it has `then`. The last row of a room is of all its events.
OPERATORS: dict[str, tuple[Any, set[str], bool]] = {
    "tumbling": (lambda of, **more: op.windows("w", EVENTS, of, length="1d", **KEY, **more), IN_PARTS, True),
    "hopping": (lambda of, **more: op.windows("w", EVENTS, of, length="1d", every="8h", **KEY, **more), IN_PARTS, True),
    "calendar": (
        lambda of, **more: op.windows("w", EVENTS, of, length=op.Calendar("day", "Asia/Kathmandu"), **KEY, **more),
        IN_PARTS,
        True,
    ),
    "corrected": (
        lambda of, **more: op.windows("w", EVENTS, of, length="1d", lateness=op.Lateness(allowed="1d"), **KEY, **more),
        IN_PARTS,
        True,
    ),
    "totals": (lambda of, **more: op.totals("w", EVENTS, of, **KEY, **more), IN_PARTS, True),
    "top": (
        lambda of, **more: op.windows(
            "w", EVENTS, of, length="1d", by="room", top=op.Top(n=2, highest="number", whole=NUMBER), counted="number", **more
        ),
        IN_PARTS,
        True,
    ),
    "sessions": (lambda of, **more: op.sessions("w", EVENTS, of, gap="9h", **KEY, **more), IN_PARTS, True),
    "last_n": (lambda of, **more: op.last_n("w", EVENTS, of, n=99, from_n=1, gap=SILENCE, **KEY, **more), IN_PARTS, False),
    "running": (lambda of, **more: op.running("w", SIGNED, of, **KEY, **more), IN_PARTS - {"quantile"}, True),
    "running at once": (
        lambda of, **more: op.running("w", SIGNED, of, at_once=True, expiry=SILENCE, **KEY, **more),
        IN_PARTS - {"quantile"},
        True,
    ),
    "sessions until": (lambda of, **more: op.sessions("w", EVENTS, of, **UNTIL, **more), IN_PARTS | OF_TWO, True),
    "sessions while": (lambda of, **more: op.sessions("w", EVENTS, of, **WHILE, **more), IN_PARTS | OF_TWO, True),
}  # fmt: skip


IN_ORDER = {"last_n", "running", "running at once", "sessions until", "sessions while"}


def job_of(operator, columns, output):
    make, _, _ = OPERATORS[operator]
    # The greatest id is read, by which simultaneous events are ordered before other columns.
    of = {"number": op.count(), "newest": op.max("id"), "since": op.first("at")}
    declared = {"room": pa.string(), "number": pa.int64()}
    if operator in ("hopping", "corrected"):
        declared |= {
            "n_events" if operator == "hopping" else "window_start": TIME if operator == "corrected" else pa.int64()
        }
    kinds = {name: type_of_aggregate(*one) for name, one in columns.items()}
    if output == "inferred":
        return make({**of, **{name: aggregate_of(*one) for name, one in columns.items()}})
    if output == "declared":
        return make({**of, **{name: aggregate_of(*one) for name, one in columns.items()}}, output={**declared, **kinds})
    hidden = {f"of_{name}": aggregate_of(*one) for name, one in columns.items()}
    return make({**of, **hidden}, output={**declared, **kinds}, then={name: pl.col(f"of_{name}") for name in columns})


def whole(operator, columns, output, chance):
    """The row of each room that is of all events."""
    job, came = job_of(operator, columns, output), events()
    early = came.filter(pl.col("at") < came["at"].max())
    runs = [early, came.join(early, on="id", how="anti")]
    harness = play(
        job, [one[chance.sample(range(one.height), one.height)] for one in runs], NOON + timedelta(days=9), 2
    )
    rows = harness.written["w"]
    return rows.group_by("room").agg(pl.all().sort_by("number").last()).sort("room"), came


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("operator", OPERATORS)
def test_every_aggregate_of_every_type_is_what_plain_python_says(operator, output, record_property):
    _, has, has_then = OPERATORS[operator]
    if output == "then" and not has_then:
        pytest.skip(f"{operator} has no `then`")
    columns = aggregates(list(KINDS), FORMS, has)
    if operator.startswith("running"):
        # Its table has all columns of events, and can have none without a sign.
        columns = {name: one for name, one in columns.items() if one[2] != "derived" or is_signed(one[1])}
    rows, came = whole(operator, some(columns, operator, output), output, random.Random(operator))
    wrong = faults(operator, {name: one for name, one in columns.items() if name in rows.columns}, rows, came)
    assert not wrong, wrong
    record_property("cases", len(columns) * rows.height)


def some(columns, operator, output):
    """All columns, or every sixth where there is little time: other ones for each operator and output."""
    first = (list(OPERATORS).index(operator) + 2 * OUTPUTS.index(output)) % 6
    return columns if ALL else dict(list(columns.items())[first::6])


def faults(operator, columns, rows, came):
    """What is wrong in the rows, by column."""
    wrong = {}
    for name, (aggregate, kind, form) in columns.items():
        values = came.sort("at", "id").select("room", "at", value=value_in(kind, form))
        if rows.schema[name] != pl.Schema(pa.schema([(name, type_of_aggregate(aggregate, kind, form))]))[name]:
            wrong[name] = rows.schema[name]
        for room, got in rows.select("room", name).rows():
            events_of_room = values.filter(room=room)
            if aggregate == "collect" and operator not in IN_ORDER:
                events_of_room = events_of_room.sort("at", "value", nulls_last=False)
            of_room = events_of_room["value"].to_list()
            if operator == "sessions while":
                # There, NaN in a column that may be NULL counts as NULL.
                of_room = [None if isinstance(value, float) and value != value else value for value in of_room]
            right = by_hand(aggregate, of_room)
            if not is_right(got, right, of_room):
                wrong[name] = got, right
    return wrong


NUMBERS = ["i8", "i64", "u8", "f32", "f64", "huge", "wild", "money", "exact"]


@pytest.mark.parametrize("operator", [name for name in OPERATORS if name != "totals"])
def test_an_aggregate_is_the_same_in_every_operator_to_the_last_bit(operator):
    has = OPERATORS[operator][1] & IN_PARTS - {"collect"}
    columns = aggregates(NUMBERS, ["expression"], has)
    expected, _ = whole("totals", columns, "inferred", random.Random(1))
    rows, _ = whole(operator, columns, "inferred", random.Random(2))
    for name in columns:
        assert [*map(repr, rows[name])] == [*map(repr, expected[name])], name


@pytest.mark.parametrize("n", [1, 2, 5])
def test_each_row_in_order_has_the_aggregates_of_the_events_before_it(n):
    columns = aggregates(["i8", "f64", "huge", "money", "text", "texts"], ["expression"], IN_PARTS | OF_TWO)
    of = {name: aggregate_of(*one) for name, one in columns.items()}
    of_running = {
        name: one for name, one in of.items() if one.kind not in ("quantile", "over_pairs", "sum_of_decreases")
    }
    came = events()
    jobs = {
        n: op.last_n("w", EVENTS, {**of, "newest": op.last("id")}, n=n, from_n=1, gap=SILENCE, **KEY),
        came.height: op.running("w", SIGNED, {**of_running, "newest": op.last("id")}, **KEY),
    }
    for length, job in jobs.items():
        written = play(job, [came[:8], came[8:]], NOON + timedelta(days=9)).written["w"].sort("newest")
        for room in "ab":
            ids, rows = came.filter(room=room)["id"].to_list(), written.filter(room=room)
            assert rows["newest"].to_list() == ids
            for name, (aggregate, kind, form) in columns.items():
                if name not in rows.columns:
                    continue
                values = came.filter(room=room).select(value_in(kind, form)).to_series().to_list()
                for place, got in enumerate(rows[name].to_list()):
                    window = values[max(0, place + 1 - length) : place + 1]
                    assert is_right(got, by_hand(aggregate, window), window), (name, place)


@pytest.mark.parametrize("operator", ["calendar", "totals", "top", "sessions", "last_n", "running", "sessions until"])
def test_a_run_over_files_gives_the_same(operator, tmp_path):
    # Streams have finite numbers.
    came = events().with_columns(pl.when(pl.col(name).is_finite()).then(pl.col(name)) for name in ("wild", "none"))
    lake = Lake(tmp_path)
    later = came.head(1).with_columns(id=pl.lit(99, pl.Int64), room=pl.lit("z"), at=NOON + timedelta(days=9))
    columns = aggregates(list(KINDS), ["expression"], OPERATORS[operator][1])
    columns = dict(list(columns.items())[:: 1 if ALL else 4])
    job = job_of(operator, columns, "inferred")
    for part in (came[8:16], came[:8], pl.concat([came[16:], later])):
        lake.land(STREAM, part)
    lake.run(job)
    rows = scan_table(lake.lakehouse.table("w")).collect().filter(pl.col("room") != "z")
    rows = rows.group_by("room").agg(pl.all().sort_by("number").last()).sort("room")
    assert rows["number"].to_list() == [12, 12]
    assert not faults(operator, columns, rows, came)
