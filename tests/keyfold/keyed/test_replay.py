"""Replays: history again, into a branch, with the live tables left alone."""

import pytest

from keyfold.errors import KeyfoldError
from keyfold.keyed.generation.run_mode import Incremental, Replay
from keyfold.keyed.runner import run_job
from tests.keyfold.keyed.toy_jobs import START, clicks, windows
from tests.lake import Lake, minutes


@pytest.fixture
def clicked(lakehouse):
    lakehouse.events("clicks").parent.mkdir(parents=True, exist_ok=True)
    clicks(("ann", 0), ("ann", 4), ("bob", 12), ("ann", 31)).write_delta(str(lakehouse.events("clicks")))


def test_a_replay_runs_over_its_range_and_leaves_the_live_tables_alone(without_spark, lakehouse, clicked):
    run_job(lakehouse, windows(), Incremental(advance_to=minutes(60)), runners=without_spark)
    live = Lake(lakehouse).rows("windows")
    summary = run_job(
        lakehouse,
        windows(),
        Replay("what-if", since=minutes(4), until=minutes(31), advance_to=minutes(60)),
        runners=without_spark,
    )
    assert summary.counts.events == 2
    assert Lake(lakehouse).rows("windows@what-if") == [("ann", START, 1), ("bob", minutes(10), 1)]
    assert Lake(lakehouse).rows("windows") == live
    assert run_job(lakehouse, windows(), runners=without_spark).generation == "generation-0001"


def test_a_replay_of_the_same_branch_starts_over(without_spark, lakehouse, clicked):
    for _ in range(2):
        run_job(lakehouse, windows(), Replay("again", advance_to=minutes(60)), runners=without_spark)
    assert Lake(lakehouse).rows("windows@again") == [
        ("ann", START, 2),
        ("ann", minutes(30), 1),
        ("bob", minutes(10), 1),
    ]
    assert "windows" not in lakehouse.tables()


@pytest.mark.parametrize("name", ["", "..", "a/b", "UPPER", "x" * 65])
def test_a_branch_needs_a_name_that_is_no_path(without_spark, lakehouse, clicked, name):
    with pytest.raises(KeyfoldError, match="branch"):
        run_job(lakehouse, windows(), Replay(name), runners=without_spark)


def test_a_range_that_holds_nothing_is_refused():
    with pytest.raises(KeyfoldError, match="is not before"):
        Replay("none", since=minutes(5), until=minutes(5))
