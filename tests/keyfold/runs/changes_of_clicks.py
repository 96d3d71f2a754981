"""A change of clicks, which is cut off at a point: what it is about, and what is there afterwards."""

import json
import shutil
from datetime import timedelta

import polars as pl

from keyfold.ingestion import ingest_totals
from keyfold.journal.audit import Author
from keyfold.keyed.generation.run_mode import Incremental
from keyfold.lakehouse import fail_points
from keyfold.lakehouse.file_changes import erased_rows
from keyfold.lakehouse.reading import count_rows
from keyfold.runs.event_changes import quarantine
from tests.keyfold.keyed.toy_jobs import windows
from tests.keyfold.runs.ruled_clicks import CLICKS, events
from tests.lake import Lake
from tests.shop import START

JOB, LATE = windows(stream=CLICKS), windows(stream=CLICKS, name="late")
BY = Author("ann@example.org", "a click of nobody")
BEFORE, EVENT, AGAIN = [("ann", 1, 1), ("cat", 3, 3)], ("bob", 2, 666), ("bob", 2, 6)

# Before the decision nothing is changed. After it, whoever comes next finishes the call. An event is in quarantine before it leaves the
# events.
PREPARED = ("rewrite: plans withdrawn", "rewrite: files written")
CHANGED = ("rewrite: decided", "rewrite: events changed", "rewrite: audited", "rewrite: applied")
QUARANTINED = (
    "rewrite: decided",
    "rewrite: quarantine changed",
    "rewrite: events changed",
    "rewrite: ids known",
    *CHANGED[2:],
)
REPLACED = ("rewrite: decided", "rewrite: events changed", "rewrite: ids known", *CHANGED[2:])
REFRESHED = ("done: after", "generation: live", "rewrite: ended")


class CutOff(Exception):
    """Passes through code that has a remedy for an OSError, as a kill does."""


def ingested_clicks(home):
    """Events of four people in two files, of which a job has read the first."""
    lake = Lake(home)
    lake.land(CLICKS, events(*BEFORE))
    lake.run(LATE)
    lake.land(CLICKS, events(EVENT, ("dan", 4, 4)))
    return lake


def copy_of(lake, home):
    """A lakehouse with all that another has."""
    shutil.copytree(str(lake.lakehouse.home), home)
    copied = Lake(home)
    copied.landed = lake.landed
    return copied


def cut_at(monkeypatch, point, error, call):
    """Cut a call off when it comes to a point for the first time; return whether it came there."""

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


REST = [("ann", 1), ("cat", 3), ("dan", 4)]


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


def take_out(lake, jobs, *users):
    ids = [json.dumps({"user": user, "at": f"2026-01-01T00:0{minute}:00Z"}) for user, minute in users]
    return quarantine(lake.lakehouse, CLICKS, jobs, ids, BY, yes=True, runners=lake.session)


def calls_left(lake):
    return list((lake.lakehouse.home / "rewrites").glob("*.json"))
