"""What a step is called with and gives back: events that only wait, rows that are added, keys that are dropped; see `test_contract.py`."""

from dataclasses import replace

import polars as pl
import pytest

from keyfold.errors import Misconfigured
from keyfold.keyed.calling.harness import TestHarness
from keyfold.keyed.job.step import Step
from keyfold.keyed.parts.manifest import Manifest
from keyfold.keyed.parts.part_rows import Sizes
from keyfold.keyed.runner import run_job
from keyfold.keyed.running import operator
from keyfold.lakehouse import Lakehouse
from tests.keyfold.keyed.toy_jobs import WAITING, clicks, notes, visits, visits_step
from tests.keyfold.state.local_state import manifests_after
from tests.lake import Lake

USERS = [f"user-{number}" for number in range(5)]


def test_the_step_is_spared_events_that_wait_and_sees_them_when_their_key_is_due():
    seen = []

    def step(state, events, clock):
        seen.append((state.height, events.height))
        return visits_step(state, events, clock)

    harness = TestHarness(visits(step=step))
    for minute in (1, 2, 3, 4):
        harness.batch(clicks(("ann", minute)))
    harness.batch(clicks(("bob", 18)))
    assert seen == [(0, 1), (0, 0), (0, 0), (0, 0), (4, 1)]


def test_an_event_waits_neither_where_it_is_late_nor_beside_one_that_does_not():
    harness = TestHarness(visits())
    harness.batch(clicks(("ann", 20), ("bob", 21)))
    harness.batch(clicks(("ann", 21), ("ann", 27), ("bob", 22)))
    assert harness.state.select("user", "deadline").rows()[1:] == [("bob", None)]
    assert harness.written["visits"]["user"].to_list() == ["ann"] * 3


def test_state_that_waits_is_in_parts_of_its_own(tmp_path, without_spark, monkeypatch):
    monkeypatch.setattr(operator, "SIZES", Sizes(small_bytes=0, inline_bytes=0))
    lakehouse, table = Lakehouse(tmp_path), Lakehouse(tmp_path).events("clicks")
    table.parent.mkdir(parents=True)
    for minute in (1, 2, 3):
        clicks(*[(user, minute) for user in USERS]).write_delta(str(table), mode="append")
        run_job(lakehouse, visits(), runners=without_spark)
    generation = Lake(lakehouse).live("visits")
    for packed in manifests_after(generation, 2).values():
        manifest = Manifest.unpack(packed)
        assert {part.batch for part in (*manifest.base, *manifest.changes)} == {0}
        assert manifest.waiting is not None
        assert {part.batch for part in manifest.waiting.parts} == {1, 2}


def test_what_waits_is_told_by_columns_of_state():
    with pytest.raises(Misconfigured, match=r"state \(waiting\) has no column due"):
        visits(waiting=replace(WAITING, rows=pl.col("due").is_null()))


def test_rows_that_wait_are_held_to_the_columns_of_state():
    job = visits(waiting=replace(WAITING, kept_as=lambda events: events.with_columns(clicks=pl.lit("many"))))
    harness = TestHarness(job)
    harness.batch(clicks(("ann", 1)))
    with pytest.raises(ValueError, match="rows that wait"):
        harness.batch(clicks(("ann", 2)))


def test_a_step_that_says_nothing_of_its_output_writes_no_rows():
    harness = TestHarness(notes(step=lambda state, events, clock: Step(state=state)))
    assert harness.batch(clicks(("ann", 1))).tables == {}
