"""Every argument that is changed is seen, by a run and by `plan`; the same declaration in other words is the same."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from keyfold import (
    Append,
    IncompatibleState,
    Input,
    JobParameters,
    KeyedJob,
    Upsert,
    build_job,
    operators,
    per_key,
    with_parameters,
)
from keyfold.keyed.generation.continuing import check_generation
from keyfold.keyed.generation.declaration import declaration_of
from keyfold.keyed.generation.generations import Generation
from keyfold.operators import Held, Pattern, alert, count, last_n, max, min, pattern, windows
from keyfold.state.changing.migrating import Changes, changes_to
from tests.keyfold.keyed.generation.declared_parts import job_of, one_key
from tests.keyfold.keyed.generation.declared_space import ARGUMENTS, DECLARED, differing, record_of
from tests.keyfold.keyed.generation.declaring import EVENT, KIND, KM, RIDES, TIME


@pytest.fixture
def generation(tmp_path):
    return lambda job: Generation(tmp_path, record_of(job))


@pytest.mark.parametrize("declared", DECLARED, ids=lambda declared: declared.name)
def test_every_argument_is_changed_here(declared):
    assert [name for name in declared.arguments if name not in declared.changes] == []


def test_every_operator_and_aggregate_is_changed_here():
    public = {name for name in operators.__all__ if not isinstance(getattr(operators, name), str)}
    # A class of results, and a type.
    assert public - {declared.name for declared in DECLARED} == {"Aggregate", "TimeZone"}


@pytest.mark.parametrize(
    ("declared", "argument"), ARGUMENTS, ids=lambda value: value if isinstance(value, str) else value.name
)
def test_another_value_of_an_argument_is_seen_by_a_run_and_by_plan(declared, argument, generation):
    kind = declared.changes[argument].kind
    one, other = declared.pair(argument)
    live = generation(one)
    # As it is, it is the same: also from other objects.
    again = declared.pair(argument)[0]
    assert changes_to(again, live) == Changes(())
    check_generation(live, again)
    changes = changes_to(other, live)
    assert changes.verdict == ("free" if kind == "not of a job" else kind)
    assert bool(changes.settings) == (kind != "not of a job")
    if kind in ("move", "refresh"):
        with pytest.raises(IncompatibleState, match=r"created with: .* --full-refresh"):
            check_generation(live, other)
        return
    check_generation(live, other)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (pl.Decimal(38, 2), pl.Decimal(38, 4)),
        (pl.List(pl.Int64), pl.List(pl.String)),
        (pl.Struct({"a": pl.Int64, "b": pl.Int64}), pl.Struct({"a": pl.Int64, "b": pl.String})),
    ],
)
def test_another_type_is_a_refresh_also_where_types_begin_alike(before, after, generation):
    of_state, of_table = job_of(state={"n": before}), job_of(tables=Append({"user": pl.String, "n": before}))
    assert changes_to(job_of(state={"n": after}), generation(of_state)).verdict == "refresh"
    assert changes_to(job_of(tables=Append({"user": pl.String, "n": after})), generation(of_table)).verdict == "refresh"


def as_windows(**given: Any) -> KeyedJob:
    return windows(
        "w", **{"source": RIDES, "of": {"n": count(), "far": max("km")}, "key": "user", "length": "1h", **given}
    )


IN_OTHER_WORDS = [
    (as_windows(), as_windows(length=timedelta(hours=1))),
    (as_windows(), as_windows(length="60m")),
    (as_windows(), as_windows(key=["user"])),
    (as_windows(), as_windows(key=("user",))),
    (as_windows(), as_windows(source=Input(RIDES))),
    (as_windows(), as_windows(of={"far": max(KM), "n": count()})),
    (as_windows(then={"a": KM, "b": KM}, of={"n": count(), "km": max("km")}), as_windows(then={"b": KM, "a": KM}, of={"n": count(), "km": max("km")})),
    (
        as_windows(output={"user": pl.String, "window_end": TIME, "n": pl.Int64}),
        as_windows(output={"n": pa.int64(), "window_end": pl.Datetime("us", "UTC"), "user": pa.string()}),
    ),
    (
        last_n("l", RIDES, {"far": max("km")}, n=3, key="user", gap="2h"),
        last_n("l", RIDES, {"far": max("km")}, n=3, key="user", gap=timedelta(hours=2)),
    ),
    (
        alert("a", RIDES, {"FAR": Held(KM > 3, KM < 2, held_for="60s")}, key="user"),
        alert("a", RIDES, {"FAR": Held(KM > 3, KM < 2, held_for="1m")}, key="user"),
    ),
    (
        pattern("p", RIDES, {"x": Pattern({"one": KIND == "a", "two": KIND == "b"}, "1h")}, key="user"),
        pattern("p", RIDES, {"x": Pattern({"one": KIND == "a", "two": KIND == "b"}, timedelta(hours=1))}, key="user"),
    ),
    (job_of(inputs=Input(RIDES, final_at="at")), job_of(inputs=Input(RIDES, final_at=pl.col("at")))),
    (job_of(inputs=Input(RIDES, final_at="at", columns=("user", "at"))), job_of(inputs=Input(RIDES, final_at="at", columns=["at", "user"]))),
    (job_of(contents={"a": "1", "b": "2"}), job_of(contents={"b": "2", "a": "1"})),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(IN_OTHER_WORDS)))
def test_the_same_in_other_words_is_the_same(number):
    one, other = IN_OTHER_WORDS[number]
    assert differing(one, other) == []


def test_other_steps_of_a_pattern_in_another_order_are_another_pattern():
    steps = {"one": KIND == "a", "two": KIND == "b", "three": KIND == "c"}
    one, other = (
        pattern("p", RIDES, {"x": Pattern(given, "1h")}, key="user")
        for given in (steps, {name: steps[name] for name in ("one", "three", "two")})
    )
    assert any(text.startswith("patterns: x: steps: ") for text in differing(one, other))


def test_a_copy_with_another_step_is_no_longer_the_operator_s(generation):
    job = as_windows()
    assert replace(job, description="Rides").operator is not None
    assert replace(job, key_groups=8).operator is not None
    other = replace(job, step=lambda state, events, clock: None)
    assert other.operator is None
    assert "operator: windows → a step of its own" in differing(job, other)


def test_a_copy_of_an_operator_s_job_is_declared_by_all_that_it_is_made_of():
    one, other = (
        replace(
            as_windows(of={"n": count(), "far": far}), inputs={"rides": replace(as_windows().only_input, delay="1m")}
        )
        for far in (max("km"), min("km"))
    )
    assert one.operator is None
    assert any("joined" in text or "max" in text for text in differing(one, other))


def test_an_explicit_number_of_key_groups_stands_beside_parameters_that_have_one():
    class Gap(JobParameters):
        gap: int = 3

    class Wide(Gap):
        key_groups: int = 16

    def build(parameters: Gap) -> KeyedJob:
        """Rides."""
        return job_of(parameters=parameters, key_groups=8)

    def build_wide(parameters: Wide) -> KeyedJob:
        """Rides."""
        return job_of(parameters=parameters)

    def without(parameters: Gap) -> KeyedJob:
        """Rides."""
        return job_of(key_groups=8)

    assert job_of(parameters=Gap.model_validate({}), key_groups=8).key_groups == 8
    for declared in (with_parameters(build), with_parameters(without)):
        assert (declared.key_groups, declared.parameters["key_groups"]) == (8, 8)
        assert build_job(declared, {"gap": 4}).key_groups == 8
        # One that a run asks for comes first.
        assert build_job(declared, {"key_groups": 32}).key_groups == 32
    assert with_parameters(build_wide).key_groups == 16
    assert job_of(parameters=Gap.model_validate({})).key_groups == job_of().key_groups == 64


def test_the_tables_that_people_read_are_in_the_record_by_names_and_types_alone():
    declared = declaration_of(job_of(tables=Upsert(EVENT, "user"), step=per_key(one_key)))
    assert declared.tables["jobs"].columns["km"] == "double not null"
    assert "How far" not in declared.model_dump_json()
