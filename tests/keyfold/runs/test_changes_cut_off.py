"""A change of events by id is cut off at each point, repeated, and the event lands again: none is lost, and none counted twice."""

import json
import shutil
from datetime import timedelta

import polars as pl
import pytest

from keyfold.errors import NotFound
from keyfold.ingestion import ingest_totals
from keyfold.keyed.generation.run_mode import Incremental
from keyfold.lakehouse import fail_points
from keyfold.lakehouse.reading import count_rows
from keyfold.lakehouse.row_erasure import erased_rows
from keyfold.runs.correcting import correct
from keyfold.runs.erasing import erase
from keyfold.runs.quarantining import quarantine
from keyfold.state.changing.audit import Author
from keyfold.stream import Stream
from tests.keyfold.keyed.toy_jobs import windows
from tests.lake import Lake
from tests.shop import CLICK, START

CLICKS = Stream(
    "clicks",
    CLICK,
    "at",
    event_id=("user", "at"),
    future_bound=timedelta(days=4000),
)
JOB, LATE = windows(stream=CLICKS), windows(stream=CLICKS, name="late")
BY = Author("ann@example.org", "a click of nobody")
BEFORE, EVENT, AGAIN = [("ann", 1, 1), ("cat", 3, 3)], ("bob", 2, 666), ("bob", 2, 6)

INDEXED = ("index: ids written", "index: amended")
QUARANTINED = (
    "added: named",
    "added: committed",
    "quarantine: in both tables",
    "erasure: files written",
    "erasure: committed",
    "quarantine: taken out",
    *INDEXED,
)
REPLACED = ("erasure: files written", "erasure: committed", *INDEXED)
REFRESHED = ("done: after", "generation: live")


class CutOff(Exception):
    """Passes through code that has a remedy for an OSError, as a kill does."""


def rows_of(*rows):
    at = [START + timedelta(minutes=minute) for _, minute, _ in rows]
    return pl.DataFrame({"user": [user for user, *_ in rows], "at": at, "clicks": [clicks for *_, clicks in rows]})


@pytest.fixture(scope="module")
def ingested(tmp_path_factory):
    """Events of four people in two files, of which a job has read the first."""
    lake = Lake(tmp_path_factory.mktemp("ingested") / "home")
    lake.land(CLICKS, rows_of(*BEFORE))
    lake.run(LATE)
    lake.land(CLICKS, rows_of(EVENT, ("dan", 4, 4)))
    return lake


@pytest.fixture
def lake(ingested, tmp_path):
    shutil.copytree(str(ingested.lakehouse.home), tmp_path / "home")
    lake = Lake(tmp_path / "home")
    lake.landed = ingested.landed
    return lake


@pytest.fixture(params=[False, True], ids=["no job has read it", "a job has read it"])
def jobs(lake, request):
    """The jobs of the lakehouse: one that has not read the event, and with it, in the second case, one that has."""
    if not request.param:
        return [LATE]
    lake.run(JOB)
    return [LATE, JOB]


@pytest.fixture
def cut(monkeypatch):
    """Cut a call off when it comes to a point for the first time; return whether it came there."""

    def cut_at(point, error, call):
        def act(reached):
            if reached == point:
                raise error

        with monkeypatch.context() as patch:
            patch.setattr(fail_points, "act", act)
            try:
                call()
            except Exception as raised:
                if "cut off here" not in f"{raised!r} {raised.__cause__!r}":
                    raise
                return True
        return False

    return cut_at


def stored(lake):
    """The events, and the quarantined ones, once it is checked that the counts of ingest with later moves are those of the tables."""
    tables = lake.lakehouse.events("clicks"), lake.lakehouse.quarantine("clicks")
    totals = ingest_totals(lake.lakehouse, CLICKS)
    assert [count_rows(table) + erased_rows(table) for table in tables] == [totals.accepted, totals.quarantined]
    rejects = pl.read_delta(str(tables[1]))["raw"]
    return (
        sorted(lake.rows("events.clicks", "user", "clicks")),
        sorted((raw["user"], raw["clicks"]) for raw in map(json.loads, rejects)),
    )


def clicks_of_jobs(lake, jobs):
    """The clicks that each job has counted of each user once all time has passed."""
    counted = []
    for job in jobs:
        lake.run(job, Incremental(START + timedelta(days=1)))
        counted.append(sorted((user, clicks) for user, *_, clicks in lake.rows(job.name)))
    return counted


REST = [("ann", 1), ("cat", 3), ("dan", 4)]
ERRORS = pytest.mark.parametrize("error", [OSError(5, "cut off here"), CutOff("cut off here")], ids=["failure", "kill"])


def take_out(lake, jobs, *users):
    ids = [json.dumps({"user": user, "at": f"2026-01-01T00:0{minute}:00Z"}) for user, minute in users]
    return quarantine(lake.lakehouse, CLICKS, jobs, ids, BY, yes=True, runners=lake.session)


@ERRORS
@pytest.mark.parametrize("point", ["quarantine: plans withdrawn", *QUARANTINED, *REFRESHED])
def test_an_event_of_a_quarantine_that_was_cut_off_and_repeated_can_land_again(lake, jobs, cut, point, error):
    is_cut = cut(point, error, lambda: take_out(lake, jobs, ("bob", 2)))
    assert is_cut == (point != "done: after" or JOB in jobs)
    # A call that was not cut off, or after its last write, leaves nothing to do.
    if not is_cut or point == "generation: live":
        with pytest.raises(NotFound, match="has the id"):
            take_out(lake, jobs, ("bob", 2))
    else:
        take_out(lake, jobs, ("bob", 2))
    assert stored(lake) == (REST, [("bob", 666)])
    lake.land(CLICKS, rows_of(AGAIN, ("cat", 3, 3)))
    assert stored(lake) == (sorted([*REST, ("bob", 6)]), [("bob", 666)])
    # It is known from now on.
    lake.land(CLICKS, rows_of(AGAIN))
    assert stored(lake) == (sorted([*REST, ("bob", 6)]), [("bob", 666)])
    assert clicks_of_jobs(lake, jobs) == [sorted([*REST, ("bob", 6)])] * len(jobs)


@pytest.mark.parametrize("point", QUARANTINED)
def test_a_quarantine_of_other_events_in_between_does_not_undo_what_is_left_to_do(lake, jobs, cut, point):
    assert cut(point, CutOff("cut off here"), lambda: take_out(lake, jobs, ("bob", 2)))
    take_out(lake, jobs, ("dan", 4))
    take_out(lake, jobs, ("bob", 2), ("ann", 1))
    assert stored(lake) == ([("cat", 3)], [("ann", 1), ("bob", 666), ("dan", 4)])
    lake.land(CLICKS, rows_of(AGAIN, *BEFORE, ("dan", 4, 4)))
    assert stored(lake) == (sorted([*REST, ("bob", 6)]), [("ann", 1), ("bob", 666), ("dan", 4)])
    assert clicks_of_jobs(lake, jobs) == [sorted([*REST, ("bob", 6)])] * len(jobs)


@ERRORS
@pytest.mark.parametrize("point", [*REPLACED, *REFRESHED])
def test_a_correction_that_was_cut_off_and_repeated_is_known_to_ingest(lake, jobs, cut, point, error, tmp_path):
    rows_of(AGAIN).write_parquet(tmp_path / "right.parquet")

    def fix():
        return correct(
            lake.lakehouse, CLICKS, jobs, str(tmp_path / "right.parquet"), BY, yes=True, runners=lake.session
        )

    assert cut(point, error, fix)
    fix()
    right = sorted([*REST, ("bob", 6)])
    assert stored(lake) == (right, [])
    # What is right is a copy, and what was wrong is not accepted.
    lake.land(CLICKS, rows_of(AGAIN, ("cat", 3, 3)))
    assert stored(lake) == (right, [])
    lake.land(CLICKS, rows_of(EVENT))
    assert stored(lake) == (right, [("bob", 666)])
    assert clicks_of_jobs(lake, jobs) == [right] * len(jobs)


@ERRORS
@pytest.mark.parametrize("point", ["erasure: files written", "erasure: committed", *REFRESHED])
def test_what_an_erasure_erases_that_was_cut_off_and_repeated_is_as_after_one_that_was_not(
    lake, jobs, cut, point, error, tmp_path
):
    shutil.copytree(str(lake.lakehouse.home), tmp_path / "other")
    other = Lake(tmp_path / "other")
    other.landed = lake.landed

    def remove(one):
        return erase(one.lakehouse, CLICKS, jobs, {"user": ["bob"]}, BY, yes=True, runners=one.session)

    assert cut(point, error, lambda: remove(lake))
    for one in (lake, other):
        remove(one)
        assert stored(one) == (REST, [])
        one.land(CLICKS, rows_of(EVENT, ("eve", 5, 5)))
    assert stored(lake) == stored(other)
    assert clicks_of_jobs(lake, jobs) == clicks_of_jobs(other, jobs)
