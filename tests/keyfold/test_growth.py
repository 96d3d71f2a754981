"""What continuous runs leave on disk, and hold open, does not grow with their batches."""

import gc
import os
import threading
from datetime import timedelta
from functools import partial

import polars as pl
import pytest
from deltalake import DeltaTable

from keyfold.ingestion import ingest_totals
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.job_run import RunOptions, run_continuously
from keyfold.lakehouse import Lakehouse
from keyfold.runs import ingest_continuously
from keyfold.runs.table_maintenance import TableMaintenance, tables_of_ingest, tables_of_job
from tests.keyfold.keyed.toy_jobs import totals
from tests.lake import LOCAL, Lake
from tests.landings import EVENTS, event, land
from tests.shop import clicks
from tests.waiting import wait_until

BATCHES = 60
EVERY, VERSIONS, KEPT = 5, 10, 5
maintained = partial(TableMaintenance, every=EVERY)
SOON = timedelta(milliseconds=10)


@pytest.fixture(autouse=True)
def bounds_that_few_batches_reach(monkeypatch):
    monkeypatch.setattr("keyfold.maintenance.log_trimming._MARGIN", timedelta(0))
    monkeypatch.setattr("keyfold.runs.table_maintenance.KEPT_VERSIONS", VERSIONS)


def test_of_ingest(lakehouse, tmp_path):
    landing, before = tmp_path / "landing", 0
    landing.mkdir()
    tables = partial(tables_of_ingest, lakehouse, EVENTS)
    with (
        maintained(lakehouse, tables) as maintenance,
        running(
            partial(ingest_continuously, lakehouse, EVENTS, landing, settle=timedelta(0), every=SOON),
            on_batch=lambda _: maintenance.after_batch(),
        ),
    ):
        for number in range(BATCHES):
            land(landing / f"{number}.ndjson", [event(seq=number)])
            wait_until(lambda least=number: ingest_totals(lakehouse, EVENTS).accepted > least)
            before = before or (open_files() if number == BATCHES // 2 else 0)
        assert open_files() <= before + 5
    table = lakehouse.events("clicks")
    assert sorted(pl.read_delta(str(table))["seq"]) == [*range(BATCHES)]
    check_table(table)
    assert count(lakehouse.ingest("clicks") / "ids") <= 3 * 8


@pytest.mark.usefixtures("without_spark")
def test_of_a_job(lakehouse, monkeypatch):
    monkeypatch.setattr("keyfold.journal.journal.KEPT", KEPT)
    job, before = totals(), 0
    put(lakehouse, 0)
    tables = partial(tables_of_job, lakehouse, job)
    with (
        maintained(lakehouse, tables) as maintenance,
        running(
            partial(run_continuously, lakehouse, job, every=SOON, runners=LOCAL),
            options=RunOptions(on_batch=lambda *_: maintenance.after_batch()),
        ),
    ):
        for number in range(BATCHES):
            wait_until(lambda least=number: events_of(lakehouse, job) > least)
            before = before or (open_files() if number == BATCHES // 2 else 0)
            if number < BATCHES - 1:
                put(lakehouse, number + 1)
        assert open_files() <= before + 5
    generation = Lake(lakehouse).live(job.name)
    for table in job.tables:
        check_table(generation.table(table.name))
    assert count(generation.journal.folder) <= 2 * 2 * KEPT + 2


class running(threading.Thread):
    """A continuous run in a thread, which is told to stop at the end."""

    def __init__(self, run, **named):
        self.told = threading.Event()
        super().__init__(target=run, kwargs={**named, "stop": self.told}, daemon=True)

    def __enter__(self):
        self.start()

    def __exit__(self, *_):
        self.told.set()
        self.join(60)


def put(lakehouse: Lakehouse, number):
    lakehouse.events("clicks").parent.mkdir(parents=True, exist_ok=True)
    clicks(("ann", number)).write_delta(str(lakehouse.events("clicks")), mode="append")


def events_of(lakehouse, job):
    generation = live_generation(lakehouse, job.name)
    done = generation.journal.last_done() if generation else None
    return done.total_events if done else 0


def check_table(table):
    """Few live files, and a log from a checkpoint on; what arrives during maintenance comes on top."""
    slack = 4 * EVERY
    assert len(DeltaTable(str(table)).file_uris()) <= EVERY + slack
    entries = len(list((table / "_delta_log").glob("*.json")))
    interval = int(DeltaTable(str(table)).metadata().configuration.get("delta.checkpointInterval", 100))
    assert entries <= VERSIONS + interval + 2 * EVERY + slack


def count(folder):
    return sum(len(names) for _, _, names in os.walk(folder))


def open_files():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))
