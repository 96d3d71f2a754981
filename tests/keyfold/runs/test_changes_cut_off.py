"""A change of events by id is cut off at each point, repeated, and the event lands again: none is lost, and none counted twice."""

import shutil
from functools import partial

import polars as pl
import pytest

import keyfold
from keyfold.errors import NotFound
from keyfold.runs.event_changes import correct, erase
from tests.keyfold.runs.changes_of_clicks import (
    AGAIN,
    BEFORE,
    BY,
    CHANGED,
    EVENT,
    JOB,
    LATE,
    PREPARED,
    QUARANTINED,
    REFRESHED,
    REPLACED,
    REST,
    CutOff,
    calls_left,
    clicks_of_jobs,
    copy_of,
    cut_at,
    ingested_clicks,
    stored,
    take_out,
)
from tests.keyfold.runs.ruled_clicks import CLICKS, events
from tests.lake import Lake


@pytest.fixture(scope="module")
def ingested(tmp_path_factory):
    return ingested_clicks(tmp_path_factory.mktemp("ingested") / "home")


@pytest.fixture
def lake(ingested, tmp_path):
    return copy_of(ingested, tmp_path / "home")


@pytest.fixture
def cut(monkeypatch):
    return partial(cut_at, monkeypatch)


@pytest.fixture(params=[False, True], ids=["no job has read it", "a job has read it"])
def jobs(lake, request):
    """The jobs of the lakehouse: one that has not read the event, and with it, in the second case, one that has."""
    if not request.param:
        return [LATE]
    lake.run(JOB)
    return [LATE, JOB]


ERRORS = pytest.mark.parametrize("error", [OSError(5, "cut off here"), CutOff("cut off here")], ids=["failure", "kill"])


def files_of_tables(lake):
    return [path for path in lake.lakehouse.home.rglob("*.parquet") if "landing" not in path.parts]


@ERRORS
@pytest.mark.parametrize("point", [*PREPARED, *QUARANTINED, *REFRESHED])
def test_an_event_of_a_quarantine_that_was_cut_off_and_repeated_can_land_again(lake, jobs, cut, point, error):
    is_cut = cut(point, error, lambda: take_out(lake, jobs, ("bob", 2)))
    assert is_cut == (point != "done: after" or JOB in jobs)
    # A call that was not cut off, or after its last write, leaves nothing to do.
    if not is_cut or point == "rewrite: ended":
        with pytest.raises(NotFound, match="has the id"):
            take_out(lake, jobs, ("bob", 2))
    else:
        take_out(lake, jobs, ("bob", 2))
    assert not calls_left(lake)
    assert stored(lake) == (REST, [("bob", 666)])
    lake.land(CLICKS, events(AGAIN, ("cat", 3, 3)))
    assert stored(lake) == (sorted([*REST, ("bob", 6)]), [("bob", 666)])
    # It is known from now on.
    lake.land(CLICKS, events(AGAIN))
    assert stored(lake) == (sorted([*REST, ("bob", 6)]), [("bob", 666)])
    assert clicks_of_jobs(lake, jobs) == [sorted([*REST, ("bob", 6)])] * len(jobs)


@pytest.mark.parametrize("point", [*QUARANTINED, "done: after", "generation: live"])
@pytest.mark.parametrize("first", ["ingest", "run"])
def test_a_quarantine_that_was_cut_off_is_finished_by_the_next_ingest_and_the_next_runs(lake, jobs, cut, point, first):
    assert cut(point, CutOff("cut off here"), lambda: take_out(lake, jobs, ("bob", 2))) == (
        point != "done: after" or JOB in jobs
    )
    if first == "ingest":
        # The event lands again, right, before anybody repeats the call: it is no duplicate of the one that was taken out.
        lake.land(CLICKS, events(AGAIN, ("cat", 3, 3)))
    for job in jobs:
        keyfold.run(lake.lakehouse, job, runners=lake.session)
    if first == "run":
        assert stored(lake) == (REST, [("bob", 666)])
        lake.land(CLICKS, events(AGAIN, ("cat", 3, 3)))
    assert not calls_left(lake)
    assert stored(lake) == (sorted([*REST, ("bob", 6)]), [("bob", 666)])
    assert clicks_of_jobs(lake, jobs) == [sorted([*REST, ("bob", 6)])] * len(jobs)


@pytest.mark.parametrize("point", QUARANTINED)
def test_a_quarantine_of_other_events_in_between_does_not_undo_what_is_left_to_do(lake, jobs, cut, point):
    assert cut(point, CutOff("cut off here"), lambda: take_out(lake, jobs, ("bob", 2)))
    take_out(lake, jobs, ("dan", 4))
    take_out(lake, jobs, ("bob", 2), ("ann", 1))
    assert stored(lake) == ([("cat", 3)], [("ann", 1), ("bob", 666), ("dan", 4)])
    lake.land(CLICKS, events(AGAIN, *BEFORE, ("dan", 4, 4)))
    assert stored(lake) == (sorted([*REST, ("bob", 6)]), [("ann", 1), ("bob", 666), ("dan", 4)])
    assert clicks_of_jobs(lake, jobs) == [sorted([*REST, ("bob", 6)])] * len(jobs)


@pytest.mark.parametrize("point", [*PREPARED, *REPLACED, *REFRESHED])
@pytest.mark.parametrize("by", ["the same call", "ingest and runs"])
def test_a_correction_that_was_cut_off_is_finished_and_known_to_ingest(lake, jobs, cut, point, by, tmp_path):
    events(AGAIN).write_parquet(tmp_path / "right.parquet")

    def fix():
        return correct(
            lake.lakehouse, CLICKS, jobs, str(tmp_path / "right.parquet"), BY, yes=True, runners=lake.session
        )

    assert cut(point, CutOff("cut off here"), fix) == (point != "done: after" or JOB in jobs)
    if by == "the same call" or point in PREPARED:
        fix()
    else:
        lake.land(CLICKS, events(("cat", 3, 3)))
        for job in jobs:
            keyfold.run(lake.lakehouse, job, runners=lake.session)
    assert not calls_left(lake)
    right = sorted([*REST, ("bob", 6)])
    assert stored(lake) == (right, [])
    # What is right is a copy, and what was wrong is not accepted.
    lake.land(CLICKS, events(AGAIN, ("cat", 3, 3)))
    assert stored(lake) == (right, [])
    lake.land(CLICKS, events(EVENT))
    assert stored(lake) == (right, [("bob", 666)])
    assert clicks_of_jobs(lake, jobs) == [right] * len(jobs)


@pytest.mark.parametrize("point", [*PREPARED, *CHANGED, *REFRESHED])
@pytest.mark.parametrize("by", ["the same call", "ingest and runs"])
def test_what_an_erasure_erases_that_was_cut_off_and_finished_is_as_after_one_that_was_not(
    lake, jobs, cut, point, by, tmp_path
):
    shutil.copytree(str(lake.lakehouse.home), tmp_path / "other")
    other = Lake(tmp_path / "other")
    other.landed = lake.landed

    def remove(one):
        return erase(one.lakehouse, CLICKS, jobs, {"user": ["bob"]}, BY, yes=True, runners=one.session)

    assert cut(point, CutOff("cut off here"), lambda: remove(lake))
    if by == "the same call" or point in PREPARED:
        remove(lake)
    else:
        lake.land(CLICKS, events(("cat", 3, 3)))
        for job in jobs:
            keyfold.run(lake.lakehouse, job, runners=lake.session)
    remove(other)
    for one in (lake, other):
        assert not calls_left(one)
        assert not any("bob" in str(pl.read_parquet(str(path)).rows()) for path in files_of_tables(one))
        assert stored(one) == (REST, [])
        one.land(CLICKS, events(EVENT, ("eve", 5, 5)))
    assert stored(lake) == stored(other)
    assert clicks_of_jobs(lake, jobs) == clicks_of_jobs(other, jobs)
