"""A continuous run that is told to stop in the middle of a batch finishes it: nothing is left planned, and no more is begun."""

import threading
from datetime import timedelta

import polars as pl
import pytest

from keyfold.ingestion import ingest_journal
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.job_run import run_continuously
from keyfold.lakehouse import fail_points
from keyfold.runs import ingest_continuously
from tests.keyfold.keyed.toy_jobs import windows
from tests.lake import LOCAL
from tests.landings import EVENTS, event, land
from tests.shop import clicks

MOMENTS = ["plan: before", "plan: after", "work: before", "work: after", "done: after", "commit: before"]


@pytest.fixture(params=MOMENTS)
def stop(request, monkeypatch):
    """Told to stop when a batch comes to a moment."""
    told = threading.Event()

    def act(point):
        if point == request.param:
            told.set()

    monkeypatch.setattr(fail_points, "act", act)
    return told


@pytest.mark.usefixtures("without_spark")
def test_a_job_finishes_its_batch(lakehouse, stop):
    lakehouse.events("clicks").parent.mkdir(parents=True)
    clicks(("ann", 0), ("bob", 60)).write_delta(str(lakehouse.events("clicks")))
    summary = run_continuously(lakehouse, windows(), stop=stop, runners=LOCAL)
    generation = live_generation(lakehouse, "windows")
    assert stop.is_set()
    assert generation is not None
    assert (len(summary.batch_seconds), generation.journal.pending()) == (1, [])
    assert pl.read_delta(str(lakehouse.table("windows")))["user"].to_list() == ["ann"]


def test_ingest_finishes_its_batch(lakehouse, tmp_path, stop):
    land(tmp_path / "landing" / "a.ndjson", [event(seq=1), event(seq=2)])
    landing = tmp_path / "landing"
    summary = ingest_continuously(lakehouse, EVENTS, landing, settle=timedelta(0), stop=stop, runners=LOCAL)
    assert stop.is_set()
    assert (summary.batches, ingest_journal(lakehouse, "clicks").pending()) == (1, [])
    assert sorted(pl.read_delta(str(lakehouse.events("clicks")))["seq"]) == [1, 2]
