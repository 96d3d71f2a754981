"""Operators that take events in order give what plain Python gives, of keys of two columns, in any order, split and slices."""

from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold import Stream, TestHarness
from keyfold import operators as op
from keyfold.keyed.job import Timeout
from keyfold.keyed.job.inputs import Input
from keyfold.keyed.job.tables import Append
from keyfold.testing import assert_same, play
from tests.examples import examples
from tests.on_a_grid import many_of, moments, on_grid
from tests.spark_jobs.jobs.batches import in_batches

TIME = pa.timestamp("us", tz="UTC")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
GAP, PAUSE = 12 * MINUTE, 7 * MINUTE
KEY = [pa.field(name, pa.string(), nullable=False) for name in ("home", "room")]
READING = pa.schema([*KEY, pa.field("at", TIME, nullable=False), pa.field("level", pa.int64(), nullable=False)])
LATE = Input(Stream("readings", READING, event_time="at"), columns=READING, delay="1d")
KEYS = ("home", "room")

# Home, room, minutes after noon, level.
ROW = st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), moments(60, 5), st.integers(-2, 3))
DRAWN, CUTS = many_of(ROW, 24), st.lists(st.integers(0, 24), max_size=4)
SLICES = st.lists(on_grid(60, 5).map(lambda at: NOON + at * MINUTE), max_size=3)


def table(*columns):
    kinds = {"since": TIME, "until": TIME, "mean": pa.float64(), "change": pa.string()}
    return pa.schema([*KEY, *(pa.field(name, kinds.get(name, pa.int64())) for name in columns)])


def by_key(drawn):
    """The readings of each key as (time, level), in order."""
    found = defaultdict(list)
    for home, room, at, level in drawn:
        found[home, room].append((NOON + at * MINUTE, level))
    return {key: sorted(readings) for key, readings in found.items()}


def assert_told(job, drawn, cuts, slices, expected):
    """The job's tables, split anyhow, are those expected by name, and the same from the readings the other way round."""

    def frames(rows, at):
        batches = in_batches([(*row[:2], NOON + row[2] * MINUTE, row[3]) for row in rows], at)
        kinds = {"home": pl.String, "room": pl.String, "at": pl.Datetime("us", "UTC"), "level": pl.Int64}
        return [pl.DataFrame(batch, schema=kinds, orient="row") for batch in batches]

    harness = play(job, frames(drawn, cuts), NOON + timedelta(days=9), cuts=slices)
    for name, rows in expected.items():
        assert sorted(harness.written[name].rows(), key=repr) == sorted(rows, key=repr)
    assert_same(job, harness, play(job, frames(drawn[::-1], []), NOON + timedelta(days=9)))
    return harness


STEPS = op.between((pl.col("level") - pl.col("level").shift()).abs())
VISITS = op.sessions_until(
    "visits",
    LATE,
    {"since": op.first("at"), "until": op.last("at"), "first": op.first("level"), "steps": STEPS, "n": op.count()},
    until=pl.col("level") == 3,
    silence=Timeout(GAP),
    closed_for=timedelta(microseconds=1),
    output=table("since", "until", "first", "steps", "n"),
    key=KEYS,
)


@pytest.mark.parametrize(("minute", "level", "ends_at"), [(5, 0, 5 * MINUTE + GAP), (52, 3, 52 * MINUTE)])
def test_an_event_that_does_not_only_lengthen_its_session_may_end_it_sooner(minute, level, ends_at):
    harness = TestHarness(VISITS)
    for at, of in ((50, 0), (minute, level)):
        columns = {"home": ["a"], "room": ["x"], "at": [NOON + at * MINUTE], "level": [of]}
        harness.batch(pl.DataFrame(columns))
    harness.batch(advance_to=NOON + ends_at)
    assert harness.written["visits"]["until"].to_list() == [NOON + minute * MINUTE]


@examples(60)
@given(DRAWN, CUTS, SLICES)
def test_sessions_end_with_an_event_or_a_silence(drawn, cuts, slices):
    expected, late = [], 0
    for key, readings in by_key(drawn).items():
        run, closed_at = [], None
        for at, level in [*readings, (NOON + timedelta(days=5), 0)]:
            if run and at - run[-1][0] > GAP:
                expected.append((key, run))
                run, closed_at = [], run[-1][0] + GAP
            if at > NOON + timedelta(days=4):
                break
            if not run and closed_at is not None and at <= closed_at + timedelta(microseconds=1):
                late += 1
                continue
            run.append((at, level))
            if level == 3:
                expected.append((key, run))
                run, closed_at = [], at
    rows = [
        (
            *key,
            run[0][0],
            run[-1][0],
            run[0][1],
            sum(abs(b[1] - a[1]) for a, b in pairwise(run)),
            len(run),
        )
        for key, run in expected
    ]
    harness = assert_told(VISITS, drawn, cuts, slices, {"visits": rows})
    assert harness.written["late.visits"].height == late


def parts_of(readings):
    """Sessions with a level above 0 and the time between: (holds, readings, the reading that ends it)."""
    runs = []
    for reading in readings:
        is_silent = runs and reading[0] - runs[-1][1][-1][0] > GAP
        if not runs or is_silent or (reading[1] > 0) != runs[-1][0]:
            runs.append((reading[1] > 0, [], bool(is_silent) or not runs))
        runs[-1][1].append(reading)
    parts = []
    for place, (holds, run, after_silence) in enumerate(runs):
        following = runs[place + 1] if place + 1 < len(runs) and not runs[place + 1][2] else None
        is_pause = not holds and not after_silence and following and following[1][0][0] - run[0][0] < PAUSE
        goes_on = parts and not after_silence and (is_pause or parts[-1][2])
        if goes_on:
            parts[-1] = (parts[-1][0], parts[-1][1] + run, bool(is_pause))
        else:
            parts.append((holds, run, False))
    ends = {run[1][0]: run[2] for run in runs}
    for (holds, run, _), (_, following, _) in zip(parts, [*parts[1:], (False, [None], True)], strict=True):
        yield holds, run, following[0] if following[0] is not None and not ends.get(following[0], True) else None


@examples(60)
@given(st.lists(ROW, max_size=24, unique_by=lambda row: row[:3]), CUTS, SLICES)
def test_sessions_hold_while_a_condition_does_or_pauses(drawn, cuts, slices):
    job = op.sessions_while(
        "busy", LATE,
        {"since": op.first("at"), "until": op.last("at"), "least": op.min("level"), "most": op.max("level"),
         "sum": op.sum("level"), "n": op.count()},
        while_=pl.col("level") > 0,
        pause=PAUSE,
        silence=Timeout(GAP),
        output=table("since", "until", "least", "most", "sum", "n"),
        between=Append(table("since", "until", "sum", "n"), name="idle", events=pl.col("n").sum()),
        key=KEYS,
    )  # fmt: skip
    expected = {"busy": [], "idle": []}
    for key, readings in by_key(drawn).items():
        for holds, run, end in parts_of(readings):
            way = [*run, *([end] if end else [])]
            levels = [level for _, level in way]
            most = (min(levels), max(levels)) if holds else ()
            row = (*key, run[0][0], way[-1][0], *most, sum(levels), len(run))
            expected["busy" if holds else "idle"].append(row)
    assert_told(job, drawn, cuts, slices, expected)


@examples(60)
@given(DRAWN, CUTS, SLICES, st.integers(1, 4))
def test_the_last_n_and_running_rows_are_of_each_key(drawn, cuts, slices, n):
    sessions = Append(table("n"), name="sessions", events=pl.col("n").sum())
    lasts = op.last_n(
        "lasts", LATE, n, {"n": op.count(), "mean": op.mean("level"), "first": op.first("level")}, from_n=1,
        silence=Timeout(GAP), sessions=sessions, output=table("n", "mean", "first"), key=KEYS,
    )  # fmt: skip
    totals = op.running("totals", LATE, {"n": op.count(), "sum": op.sum("level")}, output=table("n", "sum"), key=KEYS)
    rows, ended, running = [], [], []
    for key, readings in by_key(drawn).items():
        session = []
        for place, (at, level) in enumerate(readings):
            if session and at - session[-1][0] > GAP:
                ended.append((*key, len(session)))
                session = []
            session.append((at, level))
            levels = [one for _, one in session[-n:]]
            rows.append((*key, len(levels), sum(levels) / len(levels), levels[0]))
            running.append((*key, place + 1, sum(one for _, one in readings[: place + 1])))
        ended.append((*key, len(session)))
    assert_told(lasts, drawn, cuts, slices, {"lasts": rows, "sessions": ended})
    assert_told(totals, drawn, cuts, slices, {"totals": running})


@examples(60)
@given(DRAWN, CUTS, SLICES)
def test_a_condition_begins_and_ends_by_two_thresholds_of_each_key(drawn, cuts, slices):
    high = op.Held(pl.col("level") > 2, pl.col("level") < 0)
    job = op.alert("high", LATE, {"HIGH": high}, output=table("level", "change"), key=KEYS)
    expected = []
    for key, readings in by_key(drawn).items():
        is_on = False
        for _, level in readings:
            if (level < 0) if is_on else (level > 2):
                is_on = not is_on
                expected.append((*key, level, "BEGAN" if is_on else "ENDED"))
    assert_told(job, drawn, cuts, slices, {"high": expected})


LEVEL: Any = {"output": table("n"), "silence": Timeout(GAP), "key": KEYS}
AT_ONCE = replace(LATE, delay=None)
COUNTED = {"since": op.first("at"), "n": op.count()}
NUMBERS = Append(table("n"), name="numbers", events=pl.col("n").sum())
IN_ORDER = {
    "sessions_until": op.sessions_until("j", AT_ONCE, COUNTED, until=pl.col("level") > 9, closed_for=MINUTE, **LEVEL),
    "sessions_while": op.sessions_while(
        "j", AT_ONCE, COUNTED, while_=pl.col("level") > 0, pause=PAUSE, between=NUMBERS, **LEVEL
    ),
    "last_n": op.last_n("j", AT_ONCE, 1, {"n": op.count()}, sessions=NUMBERS, **LEVEL),
    "alert": op.alert(
        "j",
        AT_ONCE,
        {"HIGH": op.Held(pl.col("level") > 2, pl.col("level") < 0)},
        output=table("change"),
        key=KEYS,
    ),
}


@pytest.mark.parametrize("name", IN_ORDER)
def test_an_event_at_the_watermark_is_late_and_one_after_it_is_not(name):
    def frame(*times):
        rows = [("a", "x", at, 1) for at in times]
        return pl.DataFrame(rows, schema=["home", "room", "at", "level"], orient="row").cast(
            {"at": pl.Datetime("us", "UTC")}
        )

    harness = play(IN_ORDER[name], [frame(NOON), frame(NOON, NOON + timedelta(microseconds=1))])
    assert harness.written["late.j"]["at"].to_list() == [NOON]
