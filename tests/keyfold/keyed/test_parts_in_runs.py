"""State in parts as runs write it: with parts so small that a few keys make files of every kind."""

import random

import pytest
from deltalake import DeltaTable

from keyfold.errors import Damaged
from keyfold.keyed.execution import batches, operator
from keyfold.keyed.state_parts.manifest import Manifest
from keyfold.keyed.state_parts.part_rows import Sizes
from keyfold.maintenance.checking import check
from tests.keyfold.keyed.toy_jobs import windows
from tests.keyfold.state.local_state import frames_of_state, manifests_after

USERS = [f"user-{number}" for number in range(9)]


@pytest.fixture
def small_parts(monkeypatch):
    """Parts are files from the first row on, with row groups of two rows."""
    monkeypatch.setattr(operator, "SIZES", Sizes(rows_a_group=2, rows_a_segment=4, inline_bytes=0, small_bytes=0))


def test_files_of_an_attempt_that_was_cut_off_are_removed_by_the_next_run(lake, cut_power, small_parts):
    lake.click(*[(user, 1) for user in USERS])
    lake.run(windows())
    lake.click(*[(user, 2) for user in USERS])
    assert cut_power("work: after", lambda: lake.run(windows()))
    left = {path.name for path in lake.live("windows").parts.iterdir()}
    lake.run(windows())
    generation = lake.live("windows")
    named = {
        name
        for batch in (0, 1)
        for packed in manifests_after(generation, batch).values()
        for name in Manifest.unpack(packed).files
    }
    there = {path.name for path in generation.parts.iterdir()}
    assert there == named
    assert left - there


def test_files_that_no_retained_batch_needs_are_deleted(lake, monkeypatch, small_parts):
    monkeypatch.setattr(batches, "RETAINED_BATCHES", 2)
    chance = random.Random(1)
    for _ in range(12):
        lake.click(*[(user, 1) for user in chance.sample(USERS, 4)])
        lake.run(windows())
    generation = lake.live("windows")
    for batch in (10, 11):
        assert sum(frame["clicks"].sum() for frame in frames_of_state(generation, batch)) == 4 * (batch + 1)
    with pytest.raises(Damaged, match="is gone"):
        frames_of_state(generation, 2)
    named = {
        name
        for batch in (10, 11)
        for packed in manifests_after(generation, batch).values()
        for name in Manifest.unpack(packed).files
    }
    assert {path.name for path in generation.parts.iterdir()} <= named


def test_a_part_that_is_damaged_behind_the_checks_of_a_start_is_found_by_the_worker(lake, small_parts):
    lake.click(*[(user, 1) for user in USERS])
    lake.run(windows())
    generation = lake.live("windows")
    max(generation.parts.iterdir()).unlink()
    lake.click(*[(user, 2) for user in USERS])
    with pytest.raises(Damaged, match="a part of the state, cannot be used: it is missing; restore it from a backup"):
        lake.run(windows())
    assert DeltaTable(str(generation.table("windows"))).version() <= 1


def test_a_check_of_the_lakehouse_names_a_part_that_is_cut_short_or_gone(lake, lakehouse, small_parts):
    lake.click(*[(user, 1) for user in USERS])
    lake.run(windows())
    before = {finding.path for finding in check(lakehouse)}
    assert not any("/state/" in path for path in before)
    first, *_, last = sorted(lake.live("windows").parts.iterdir())
    first.write_bytes(first.read_bytes()[:-1])
    last.unlink()
    assert {finding.path for finding in check(lakehouse)} - before == {str(first), str(last)}
