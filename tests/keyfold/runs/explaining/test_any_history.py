"""Whatever a history is like, the explanation of a key has all of its events, and gives exactly the rows that are stored."""

import random
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

import keyfold
from keyfold import Input
from keyfold.journal import journal as journal_module
from keyfold.journal.clock import Reading
from keyfold.keyed import job_run
from keyfold.operators import count, windows
from spark_jobs.jobs.registry import JOBS
from tests.explained import History
from tests.keyfold.keyed import toy_jobs
from tests.keyfold.operators.every_operator import EVERY_OPERATOR
from tests.lake import Lake
from tests.two_inputs import orders_and_payments

DURATIONS = [timedelta(minutes=10), timedelta(minutes=25)]
TOY_JOBS = {
    "windows": toy_jobs.windows,
    "combined": lambda: toy_jobs.windows(combine=toy_jobs.sum_clicks),
    "notes": toy_jobs.notes,
    "totals": toy_jobs.totals,
    "two inputs": orders_and_payments,
}
# The others read a lookup, another job's table or a service, and have tests of their own.
SHIPPED = [name for name, job in JOBS.items() if not (job.lookups or job.producers or name in ("batched_enrichment",))]


@pytest.fixture(autouse=True)
def a_clock_that_runs(monkeypatch):
    """Processing time goes on by up to half an hour a run, so that keys time out by it too."""
    chance, now = random.Random(1), [datetime(2026, 1, 2, tzinfo=UTC)]

    def read() -> Reading:
        now[0] += timedelta(minutes=chance.choice([0, 1, 12, 30]))
        return Reading(wall=now[0], uptime=0, boot="")

    monkeypatch.setattr(job_run, "read_clock", read)


@pytest.mark.parametrize("name", EVERY_OPERATOR)
def test_of_every_operator(tmp_path, name):
    history = History(Lake(tmp_path), EVERY_OPERATOR[name].of(DURATIONS), random.Random(name))
    history.go_on(runs=4)
    history.check()


@pytest.mark.parametrize("name", TOY_JOBS)
def test_of_steps_by_hand(tmp_path, name):
    history = History(Lake(tmp_path), TOY_JOBS[name](), random.Random(name))
    history.go_on(runs=5)
    assert history.check() > 0


@pytest.mark.parametrize("name", SHIPPED)
def test_of_the_shipped_jobs(tmp_path, name):
    history = History(Lake(tmp_path), JOBS[name], random.Random(name))
    history.go_on(runs=3)
    history.check()


@pytest.mark.parametrize("seed", range(3))
def test_of_batches_whose_records_are_gone(tmp_path, monkeypatch, seed):
    """The clocks of batches are kept for longer than their plans and commit records."""
    history = History(Lake(tmp_path), EVERY_OPERATOR["sessions"].of(DURATIONS), random.Random(seed))
    for _ in range(6):
        history.go_on(runs=1)
        generation = history.lake.live(history.job.name)
        with monkeypatch.context() as patch:
            patch.setattr(journal_module, "KEPT", 1)
            generation.journal.compact(generation.archive_clocks)
    generation = history.lake.live(history.job.name)
    assert generation.journal.kept()[0] > 0
    assert generation.clocks()["batch"].to_list() == list(range(history.lake.done(history.job.name).batch + 1))
    history.check()


@pytest.mark.parametrize("seed", range(3))
def test_of_a_job_on_another_job(tmp_path, seed):
    """The rows of the producer are the events of the consumer; each is explained by the producer's events."""
    producer = EVERY_OPERATOR["sessions"].of(DURATIONS)
    source = Input(producer.table(), at="until", delay="10m")
    consumer = windows("by_hour", source, {"sessions": count()}, key="user", length="1h")
    history, events = History(Lake(tmp_path), producer, random.Random(seed)), Counter[str]()
    for _ in range(4):
        history.go_on(runs=1)
        history.lake.run(consumer)
    for key in history.all_keys():
        jobs = [producer, consumer]
        why = keyfold.explain(history.lake.lakehouse, "by_hour", key, jobs=jobs, upstream=True)
        assert why.is_equal, str(why)
        assert all(above.is_equal for above in why.upstream)
        assert [above.key for above in why.upstream] == ([key] if why.events else [])
        events.update(dict.fromkeys([key["user"]], len(why.events)))
    assert events == Counter(row[0] for row in history.lake.rows("made", "user"))


def test_of_a_run_on_spark(tmp_path, spark):
    history = History(Lake(tmp_path, spark), EVERY_OPERATOR["sessions"].of(DURATIONS), random.Random(7))
    history.go_on(runs=2)
    assert history.check() > 0
    assert {batch.runner for key in history.all_keys() for batch in history.explained(key).batches} == {"spark"}
