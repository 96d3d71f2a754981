"""Columns of events may have any name: also one that an operator gives its own columns, or it is refused where the job is made."""

import ast
import random
import re
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from keyfold import Append, Input, Misconfigured, Stream, TestHarness, Timeout, required
from keyfold import operators as op
from keyfold.keyed.job.parameters import WindowShape
from keyfold.testing import play
from tests.examples import ALL

TIME = pl.Datetime("us", "UTC")
NOON, MINUTE = datetime(2026, 3, 1, 12, tzinfo=UTC), timedelta(minutes=1)
SILENCE = Timeout(timedelta(minutes=9))
ROLES = ["user", "at", "cents", "tags"]


def named_in(folder):
    """The texts in the code of a folder that could be names of columns, without docstrings."""
    found = set[str]()
    for path in Path(folder).rglob("*.py"):
        tree = ast.parse(path.read_text())
        prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in prose]
        found |= {str(one.value) for one in texts if re.fullmatch("[a-z_][a-z0-9_]*", str(one.value))}
    return sorted(found)


# Of the engine, too.
NAMES = [
    *named_in(Path(op.__file__).parent),
    "deadline",
    "processing_deadline",
    "input",
    "event_time",
    "is_new",
    "since",
    "slot",
    "mark",
]


# Each failed in the first batch of an operator once.
ONCE_TAKEN = ["key", "name", "row", "other", "version", "since", "is_new", "rank"]


def jobs(user: str, at: str, cents: str, tags: str) -> dict[str, Any]:
    """Jobs whose columns of events have these names, each as a function."""
    visit = [required(user, pl.String, "Who"), required(at, TIME, "When"), required(cents, pl.Int64, "Paid")]
    source = Input(
        Stream("visits", [*visit, (tags, pl.List(pl.String))], event_time=at), columns=(user, at, cents, tags)
    )
    left = Input(source.stream, columns=(user, at, cents))
    move = [required(user, pl.String, "Who"), required("moved", TIME, "When"), required("steps", pl.Int64, "Steps")]
    right = Input(Stream("moves", move, event_time="moved"), columns=(user, "moved", "steps"))
    value, key = pl.col(cents), dict[str, Any](key=user)
    of = {
        "x1": op.count(), "x2": op.sum(cents), "x3": op.mean(value / 2), "x4": op.max(cents), "x5": op.first(cents),
        "x6": op.count_distinct(cents), "x7": op.collect(cents), "x8": op.distinct(tags),
    }  # fmt: skip
    span = {**of, "x9": op.first(at), "x10": op.sum_of_decreases(cents), "x11": op.over_pairs(value - value.shift())}
    is_high = value > 5
    until: Any = {"until": op.Until(value > 8, closed_for="3m"), "gap": SILENCE, **key}
    held = op.Held(is_high, value < 3, timedelta(minutes=1), timedelta(minutes=1))
    up = op.Pattern({"x1": value < 4, "x2": op.Then(is_high)}, within="9m")
    sent = [Append({user: pl.String, cents: pl.Int64})]
    return {
        "windows": lambda: op.windows("w", source, of, length="8m", every="4m", **key),
        "keep_max": lambda: op.windows("w", source, of, length="8m", by=cents, keep_max="x1", **key),
        "while_open": lambda: op.windows("w", source, of, length="8m", lateness=op.Lateness(allowed="4m", while_open=True), **key),
        "top": lambda: op.windows("w", source, of, length="8m", by=user, top=op.Top(n=1, highest="x2")),
        "totals": lambda: op.totals("w", source, of, **key),
        "sessions": lambda: op.sessions("w", source, of, gap="3m", **key),
        "sessions until": lambda: op.sessions("w", source, span, **until),
        "sessions while": lambda: op.sessions("w", source, span, while_=op.While(is_high, pause="2m"), gap=SILENCE, **key),
        "last_n": lambda: op.last_n("w", source, span, n=3, from_n=1, gap=SILENCE, **key),
        "running": lambda: op.running("w", source, of, expiry=SILENCE, **key),
        "in windows": lambda: op.running("w", source, of, window=WindowShape(8 * MINUTE, 4 * MINUTE), **key),
        "highest": lambda: op.rows("w", source, keep=op.Highest(cents, n=2), **key),
        "first": lambda: op.rows("w", source, keep=op.First("5m"), **key),
        "last": lambda: op.rows("w", source, keep=op.Last("5m"), **key),
        "last for ever": lambda: op.rows("w", source, keep=op.Last(), **key),
        "alert": lambda: op.alert("w", source, {"HIGH": held, "LOW": op.Held(value < 3, is_high)}, **key),
        "pattern": lambda: op.pattern("w", source, {"UP": up}, keep=[cents], **key),
        "buffer": lambda: op.buffer("w", source, 2, lambda rows, _: {"w": rows.select(user, cents)}, sent, wait="3m", **key),
        "as_of_join": lambda: op.as_of_join("w", left, right, user, within="9m"),
        "interval_join": lambda: op.interval_join("w", left, right, user, earliest="-4m", latest="4m", how="left"),
        "window_join": lambda: op.window_join("w", left, right, user, length="8m", how="left"),
    }  # fmt: skip


def rows_of(make, names):
    """What a job writes, by table, without the names of columns."""
    job, chance = make(), random.Random(1)
    times = [NOON + chance.randrange(40) * MINUTE for _ in range(30)]
    values = {
        names[0]: [chance.choice("ab") for _ in times],
        names[1]: times,
        names[2]: [chance.randrange(10) for _ in times],
        names[3]: [chance.sample("xyz", 2) for _ in times],
    }
    came = pl.DataFrame(values, schema_overrides={names[1]: TIME}).sort(names[1], names[2])
    if len(job.inputs) > 1:
        harness = TestHarness(job)
        moves = pl.DataFrame(
            {names[0]: ["a", "b"], "moved": [NOON, NOON + 9 * MINUTE], "steps": [1, 2]},
            schema_overrides={"moved": TIME},
        )
        for visits in (came[:20], came[20:]):
            harness.batch({"visits": visits.select(names[:3]), "moves": moves}, advance_to=visits[names[1]].max())
        harness.batch(advance_to=NOON + timedelta(days=1))
    else:
        harness = play(job, [came[:20], came[20:]], NOON + timedelta(days=1))
    return {
        name: sorted(map(repr, rows.rows()))
        for name, rows in harness.written.items()
        if name in {one.name for one in job.own_tables}
    }


@cache
def usual(operator):
    return rows_of(jobs(*ROLES)[operator], ROLES)


@pytest.mark.parametrize("operator", jobs(*ROLES))
def test_a_column_of_events_may_have_any_name_or_is_refused_where_the_job_is_made(operator, record_property):
    chance, refused, wrong = random.Random(), 0, {}
    cases = [(role, name) for role in ROLES for name in NAMES if name not in ("moved", "steps")]
    usual_faults = [(role, name) for role in ("user", "cents") for name in ONCE_TAKEN] + [("at", "deadline")]
    for role, name in cases if ALL else [*usual_faults, *chance.sample(cases, 4)]:
        names = [name if one == role else one for one in ROLES]
        if len({*names}) < len(names):
            continue
        try:
            jobs(*names)[operator]()
        except Misconfigured:
            refused += 1
            continue
        try:
            if rows_of(jobs(*names)[operator], names) != usual(operator):
                wrong[role, name] = "other rows"
        except Exception as error:
            wrong[role, name] = f"{type(error).__name__}: {error}"[:90]
    assert not wrong, wrong
    assert refused < len(cases) / 4
    record_property("cases", len(cases))
