"""Operators that take events in order: keys of two columns, and the watermark.

That they give what plain Python gives, in any order, split and slices, `tests/spark_jobs/jobs/test_any_history.py` shows.
"""

import random
from dataclasses import replace
from datetime import timedelta
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from keyfold import Misconfigured, Stream, TestHarness, Timeout
from keyfold import operators as op
from keyfold.keyed.job.inputs import Input
from keyfold.keyed.job.tables import Append, Upsert
from keyfold.keyed.rows.exact_sums import TotalTooLargeError
from keyfold.testing import play
from tests.shop import MINUTE, NOON

TIME = pa.timestamp("us", tz="UTC")
GAP, PAUSE = 12 * MINUTE, 7 * MINUTE
KEY = [pa.field(name, pa.string(), nullable=False) for name in ("home", "room")]
READING = pa.schema([*KEY, pa.field("at", TIME, nullable=False), pa.field("level", pa.int64(), nullable=False)])
KEYS = ("home", "room")


def table(*columns):
    kinds = {"since": TIME, "until": TIME, "mean": pa.float64(), "change": pa.string()}
    return pa.schema([*KEY, *(pa.field(name, kinds.get(name, pa.int64())) for name in columns)])


LEVEL: Any = {"output": table("n"), "gap": Timeout(GAP), "key": KEYS}
AT_ONCE = Input(Stream("readings", READING, event_time="at"), columns=READING)
COUNTED = {"since": op.first("at"), "n": op.count()}
NUMBERS = Append(table("n"), name="numbers", events=pl.col("n").sum())
UNTIL: Any = {"until": op.Until(pl.col("level") > 2, closed_for=MINUTE)}
HIGH = op.Held(pl.col("level") > 2, pl.col("level") < 0)
IN_ORDER = {
    "sessions until": op.sessions("j", AT_ONCE, COUNTED, **UNTIL, **LEVEL),
    "sessions while": op.sessions(
        "j", AT_ONCE, COUNTED, while_=op.While(pl.col("level") > 0, pause=PAUSE, between=NUMBERS), **LEVEL
    ),
    "last_n": op.last_n("j", AT_ONCE, {"n": op.count()}, n=3, from_n=1, sessions=NUMBERS, **LEVEL),
    "alert": op.alert("j", AT_ONCE, {"HIGH": HIGH}, output=table("level", "change"), key=KEYS),
    "running": op.running("j", AT_ONCE, {"n": op.count()}, output=table("n"), key=KEYS),
}


def frame(*readings):
    """Readings of (home, room, time, level)."""
    kinds = {"home": pl.String, "room": pl.String, "at": pl.Datetime("us", "UTC"), "level": pl.Int64}
    return pl.DataFrame(readings, schema=kinds, orient="row")


@pytest.mark.parametrize(("minute", "level", "ends_at"), [(5, 0, 5 * MINUTE + GAP), (52, 3, 52 * MINUTE)])
def test_an_event_that_does_not_only_lengthen_its_session_may_end_it_sooner(minute, level, ends_at):
    harness = TestHarness(op.sessions("j", replace(AT_ONCE, delay="1d"), COUNTED, **UNTIL, **LEVEL))
    for at, of in ((50, 0), (minute, level)):
        harness.batch(frame(("a", "x", NOON + at * MINUTE, of)))
    harness.batch(advance_to=NOON + ends_at)
    assert harness.written["j"]["n"].to_list() == [1 + (minute == 52)]


@pytest.mark.parametrize("name", [name for name in IN_ORDER if name != "running"])
def test_an_event_at_the_watermark_is_late_and_one_after_it_is_not(name):
    first, second = (("a", "x", at, 1) for at in (NOON, NOON + timedelta(microseconds=1)))
    harness = play(IN_ORDER[name], [frame(first), frame(first, second)])
    assert harness.written["late.j"]["at"].to_list() == [NOON]


@pytest.mark.parametrize("name", IN_ORDER)
def test_what_a_key_of_two_columns_gives_is_what_each_key_gives_alone(name):
    chance = random.Random(name)
    readings = [
        (chance.choice("ab"), chance.choice("xy"), NOON + chance.randrange(0, 120) * MINUTE, chance.randrange(-2, 4))
        for _ in range(120)
    ]
    end, rows = NOON + timedelta(days=9), []
    for key in {one[:2] for one in readings}:
        alone = play(IN_ORDER[name], [frame(*(one for one in readings if one[:2] == key))], end)
        rows += alone.written["j"].rows()
    assert sorted(play(IN_ORDER[name], [frame(*readings)], end).written["j"].rows()) == sorted(rows)
    assert len(rows) > 12


OF = {"since": op.first("at"), "n": op.count(), "level": op.sum("level"), "mean": op.mean("level"), "at": op.max("at")}
LATEST = Upsert(
    {**dict.fromkeys(KEYS, pl.String), "mean": pl.Float64, "twice": pl.Int64, "n": pl.Int64}, KEYS, name="latest"
)
FURTHER = {
    "running": lambda table: op.running("j", AT_ONCE, OF, key=KEYS, output=table_of_all, latest=table, then=TWICE),
    "last_n": lambda table: op.last_n("j", AT_ONCE, {**OF, "twice": op.sum(pl.col("level") * 2)}, n=99, from_n=1,
                                      key=KEYS, gap=Timeout(GAP), output=table_of_all, latest=table),
    "sessions until": lambda table: op.sessions(
        "j", AT_ONCE, OF, **UNTIL, key=KEYS, gap=Timeout(GAP), output=table_of_all, then=TWICE,
        selected=[(table, pl.col("level") > 2)],
    ),
}  # fmt: skip
TWICE = {"twice": pl.col("level") * 2}
table_of_all = table("n")


@pytest.mark.parametrize("operator", FURTHER)
def test_a_further_table_has_any_of_the_aggregates_and_no_other_column(operator):
    readings = [("a", "x", NOON + minute * MINUTE, minute) for minute in range(4)]
    harness = play(FURTHER[operator](LATEST), [frame(*readings[:2]), frame(*readings[2:])], NOON + timedelta(days=9))
    assert harness.written["latest"].rows() == [("a", "x", 1.5, 12, 4)]
    other = Upsert({**dict.fromkeys(KEYS, pl.String), "levels": pl.Int64}, KEYS, name="latest")
    with pytest.raises(
        Misconfigured, match="job j: table latest: there is no column levels to write; did you mean level"
    ):
        FURTHER[operator](other)
    text = Upsert({**dict.fromkeys(KEYS, pl.String), "level": pl.String}, KEYS, name="latest")
    with pytest.raises(Misconfigured, match="job j: table latest: level is int64, and declared as string"):
        FURTHER[operator](text)


def test_aggregates_of_one_column_may_have_any_names():
    of = {
        "level": op.max("level"),
        "n": op.count(),
        "x": op.mean("level"),
        "x_n": op.sum("level"),
        "y": op.sum("level"),
    }
    job = op.running(
        "j",
        AT_ONCE,
        of,
        key=KEYS,
        output={**dict.fromkeys(KEYS, pl.String), "level": pl.Int64, "x": pl.Float64, "x_n": pl.Int64, "y": pl.Int64},
    )
    written = play(
        job, [frame(("a", "x", NOON, 5)), frame(("a", "x", NOON + MINUTE, 2))], NOON + timedelta(days=9)
    ).written["j"]
    assert written.rows() == [("a", "x", 5, 5.0, 5, 5), ("a", "x", 5, 3.5, 7, 7)]


def test_a_sum_of_a_constant_is_no_count():
    of = {"twice": op.sum(pl.lit(2)), "n": op.count()}
    for job in (op.totals("j", AT_ONCE, of, key=KEYS), op.running("j", AT_ONCE, of, key=KEYS)):
        written = play(
            job, [frame(("a", "x", NOON, 5)), frame(("a", "x", NOON + MINUTE, 2))], NOON + timedelta(days=9)
        ).written["j"]
        assert written.select("n", "twice").rows()[-1] == (2, 4)


def test_a_zero_is_the_same_whatever_its_sign_and_arrival():
    of = {"zeros": op.collect(pl.when(pl.col("level") > 0).then(-0.0).otherwise(0.0))}
    readings = [("a", "x", NOON, 0), ("a", "x", NOON, 1)]
    rows = [
        play(op.totals("j", AT_ONCE, of, key=KEYS), [frame(*come)]).written["j"] for come in (readings, readings[::-1])
    ]
    assert [str(one["zeros"].to_list()) for one in rows] == ["[[0.0, 0.0]]"] * 2


def test_a_fall_that_no_column_holds_is_refused():
    of = {"since": op.first("at"), "n": op.count(), "fallen": op.sum_of_decreases("level")}
    job = op.sessions("j", AT_ONCE, of, **UNTIL, key=KEYS, gap=Timeout(GAP))
    readings = [("a", "x", NOON, 0), ("a", "x", NOON + MINUTE, 1), ("a", "x", NOON + 2 * MINUTE, -(2**63))]
    with pytest.raises(TotalTooLargeError, match="total of fallen does not fit into Int64"):
        play(job, [frame(*readings)], NOON + timedelta(days=9))
