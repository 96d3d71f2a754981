"""Every argument that is changed is named by its name, with its old and its new value, and nothing else is named."""

import re
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from keyfold import Append, Input, KeyedJob
from keyfold.keyed.generation.generations import Generation
from keyfold.operators import Held, Lateness, alert, count, max, min, sum, windows
from keyfold.state.changing.migrating import Change, changes_to
from tests.keyfold.keyed.generation.declared_operators import OPERATORS
from tests.keyfold.keyed.generation.declared_parts import job_of
from tests.keyfold.keyed.generation.declared_space import ARGUMENTS, differing, record_of
from tests.keyfold.keyed.generation.declaring import KIND, KM, RIDES

NAMED = {
    # What an input reads, and which rows and columns of it.
    "source": "where",
    ("where", "self"): "source",
    ("derive", "self"): "source",
    ("explode", "self"): "source",
    ("where", "condition"): "where",
    ("Input", "source"): "input (rides|others)",
    ("Stream", "name"): "input (rides|trips)",
    ("Stream", "event_time"): "at|final_at",
    ("Stream", "schema"): "columns of events",
    "of": "aggregates",
    ("KeyedJob", "inputs"): "input more",
    ("KeyedJob", "tables"): "table more",
    ("buffer", "tables"): "table more",
    ("Append", "name"): "table (more|further)",
    ("Upsert", "name"): "table (more|further)",
    ("KeyedJob", "parameters"): "gap",
    ("KeyedJob", "contents"): "content of file",
    ("KeyedJob", "lookups"): "lookup people",
    ("KeyedJob", "state"): "columns of state",
    ("State", "columns"): "columns of state",
    ("State", "version"): "version of state",
    ("KeyedJob", "step"): "step",
    ("explode", "column"): "column|key",
    ("Timeout", "after"): "gap",
}
"""How an argument is named where it is not by its own name."""
OF_AGGREGATES = {"value", "q", "at_most", "by", "ignored", "where"}
INTERNAL = re.compile(r"\$|#|<function|\{\'|to_physical|\blit\(|_sum\d|_ties|_values|[0-9a-f]{16}|_deadline|PT\d")


# With another name, it is another job.
_JOBS = {"KeyedJob", *(operator.name for operator in OPERATORS)}
CHANGED = [
    (declared, argument)
    for declared, argument in ARGUMENTS
    if declared.changes[argument].kind != "not of a job" and not (argument == "name" and declared.name in _JOBS)
]


def named(declared: Any, argument: str) -> str:
    """What a change of an argument is called: a pattern of the words of the setting."""
    if (name := NAMED.get((declared.name, argument))) is None and (name := NAMED.get(argument)) is None:
        is_of_aggregate = declared.name[0].islower() and argument in OF_AGGREGATES and "name" not in declared.changes
        name = "aggregates" if is_of_aggregate and declared.name != "derive" else argument
    return "|".join((name, *map(named_along, declared.changes[argument].along)))


def named_along(argument: str) -> str:
    """What is changed with an argument, which could not be changed alone."""
    return NAMED.get(argument, argument)


@pytest.mark.parametrize(
    ("declared", "argument"), CHANGED, ids=lambda value: value if isinstance(value, str) else value.name
)
def test_a_change_is_named_by_its_argument_with_both_values_and_nothing_else_is_named(declared, argument, tmp_path):
    before, after = declared.pair(argument)
    changes = changes_to(after, Generation(tmp_path, record_of(before)))
    assert changes.settings
    assert len({change.setting for change in changes.settings}) == len(changes.settings)
    for change in changes.settings:
        words = change.setting.split(": ")
        assert any(re.fullmatch(named(declared, argument), word.removeprefix("parameter ")) for word in words), change
        if declared.changes[argument].kind != "judge":
            assert says_both(change), change
    for text in map(str, (*changes.settings, *changes.effects)):
        assert not INTERNAL.search(text), text


def says_both(change: Change) -> bool:
    """Whether the words of a change have the old and the new value; of columns, what differs."""
    if change.setting.endswith("columns") or change.setting.startswith("columns"):
        return re.search(r" is (new|gone)|\S+ → \S+", change.change) is not None
    if change.change in ("new", "gone"):
        return None in (change.before, change.after)
    values = [value.strip("[]") or "(none)" for value in (change.before, change.after) if value is not None]
    if "STEP_DECIDES" in change.change:
        values.pop()
    return all(value in change.change for value in values) and change.before != change.after


def as_windows(**given: Any) -> KeyedJob:
    of = {"n": count(), "far": max("km")}
    return windows("w", **{"source": RIDES, "of": of, "key": "user", "length": "1h", **given})


CITIES = ["oslo", "paris", "rome", "bern", "wien"]


def in_cities(*cities: str) -> KeyedJob:
    return as_windows(source=RIDES.where(KIND.is_in(cities)))


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        (
            as_windows(lateness=Lateness("1h")),
            as_windows(lateness=Lateness("1h", while_open=True)),
            "lateness: while_open: False → True",
        ),
        (
            in_cities(*CITIES),
            in_cities("rome", "bern", "wien", "madrid", "lima"),
            "where: kind is one of 5 → 5 values (added madrid, lima; removed oslo, paris)",
        ),
        (
            as_windows(source=RIDES.derive(zone=KIND.replace_strict({"a": 1, "b": 2}, default=0))),
            as_windows(source=RIDES.derive(zone=KIND.replace_strict({"a": 1, "b": 3}, default=0))),
            "derive: zone: a list of 2 → 2 values (added 3; removed 2)",
        ),
        (as_windows(), as_windows(of={"n": count(), "far": min("km")}), "aggregates: far: max(km) → min(km)"),
        (as_windows(), as_windows(of={"n": count(), "far": max("km"), "sum": sum("n")}), "aggregates: sum = sum(n) is new"),
        (as_windows(), as_windows(of={"n": count()}), "aggregates: far = max(km) is gone"),
        (as_windows(), as_windows(length="90m"), "length: 1h → 90m"),
        (
            as_windows(source=RIDES.where((KM > 3) & KIND.is_not_null())),
            as_windows(source=RIDES.where((KM > 4) & KIND.is_not_null())),
            "where: (km > 3) & kind.is_not_null() → (km > 4) & kind.is_not_null()",
        ),
        (as_windows(), as_windows(source=RIDES.where(KM > 3)), "where: km > 3 is new"),
        (as_windows(), as_windows(source=Input(RIDES, delay="5m")), "input rides: delay: 0d → 5m"),
        (as_windows(), replace(as_windows(), key_groups=8), "key_groups: 64 → 8"),
        (as_windows(), job_of(name="w"), "operator: windows → a step of its own"),
        (
            alert("a", RIDES, {"FAR": Held(KM > 3, KM < 2)}, key="user"),
            alert("a", RIDES, {"FAR": Held(KM > 4, KM < 2)}, key="user"),
            "conditions: FAR: begins: km > 3 → km > 4",
        ),
        (
            job_of(tables=Append({"user": pl.String, "n": pl.Int64})),
            job_of(tables=Append({"user": pl.String, "m": pl.Int64})),
            "table jobs: columns: m is new, n is gone",
        ),
        (job_of(), job_of(inputs=Input(RIDES, final_at="sent")), "input rides: final_at: at → sent"),
        (job_of(parameters={"gap": 3}), job_of(parameters={"gap": 4}), "parameter gap: 3 → 4"),
    ],
)  # fmt: skip
def test_a_change_is_said_in_the_author_s_words_by_argument(one, other, words):
    assert words in differing(one, other)
