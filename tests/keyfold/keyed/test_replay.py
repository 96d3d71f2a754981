"""Replays: history again, into a branch, with the live tables left alone."""

import pytest

from keyfold.errors import KeyfoldError
from keyfold.keyed.generation.run_mode import Incremental, Replay
from tests.keyfold.keyed.toy_jobs import windows
from tests.lake import minutes
from tests.shop import START, clicks


@pytest.fixture
def clicked(lakehouse):
    lakehouse.events("clicks").parent.mkdir(parents=True, exist_ok=True)
    clicks(("ann", 0), ("ann", 4), ("bob", 12), ("ann", 31)).write_delta(str(lakehouse.events("clicks")))


def test_a_replay_runs_over_its_range_and_leaves_the_live_tables_alone(lake, clicked):
    lake.run(windows(), Incremental(advance_to=minutes(60)))
    live = lake.rows("windows")
    summary = lake.run(windows(), Replay("what-if", since=minutes(4), until=minutes(31), advance_to=minutes(60)))
    assert summary.counts.events == 2
    assert lake.rows("windows@what-if") == [("ann", START, 1), ("bob", minutes(10), 1)]
    assert lake.rows("windows") == live
    assert lake.run(windows()).generation == "generation-0001"


def test_a_replay_of_the_same_branch_starts_over(lake, lakehouse, clicked):
    for _ in range(2):
        lake.run(windows(), Replay("again", advance_to=minutes(60)))
    assert lake.rows("windows@again") == [
        ("ann", START, 2),
        ("ann", minutes(30), 1),
        ("bob", minutes(10), 1),
    ]
    assert "windows" not in lakehouse.tables()


@pytest.mark.parametrize("name", ["", "..", "a/b", "UPPER", "x" * 65])
def test_a_branch_needs_a_name_that_is_no_path(lake, clicked, name):
    with pytest.raises(KeyfoldError, match="branch"):
        lake.run(windows(), Replay(name))
