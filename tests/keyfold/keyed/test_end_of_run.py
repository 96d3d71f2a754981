"""What is counted while a run goes on adds up: tables, state and journal are looked at as one batch left them."""

import threading
from datetime import timedelta

import pytest
from deltalake import DeltaTable

from keyfold.errors import KeyfoldError
from keyfold.journal import consistent_snapshot
from keyfold.journal.consistent_snapshot import ConsistentSnapshot
from keyfold.keyed.conservation import end_of_run
from keyfold.keyed.generation.batch_records import KeyedDone
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.job_run import run_continuously
from tests.keyfold.keyed.toy_jobs import windows
from tests.keyfold.state.local_state import frames_of_state
from tests.lake import LOCAL, Lake
from tests.made_generations import plan_of, put_done, put_generation

JOB = windows()


@pytest.fixture
def done(lake, lakehouse):
    """The job has run once."""
    lake.click(("ann", 0), ("bob", 30))
    lake.run(JOB)
    return live_generation(lakehouse, JOB.name)


def snapshot_of(lakehouse, generation) -> ConsistentSnapshot[KeyedDone]:
    snapshot = end_of_run(lakehouse, JOB, generation)
    assert snapshot is not None
    return snapshot


def test_before_the_first_batch_there_is_none(lakehouse):
    assert end_of_run(lakehouse, JOB, put_generation(lakehouse, JOB.name)) is None


def test_a_run_that_was_cut_off_is_refused_at_once(lakehouse, done):
    done.journal.write_plans([plan_of(1, "events.clicks", 1)])
    with pytest.raises(KeyfoldError, match="its last run was cut off"):
        end_of_run(lakehouse, JOB, done)


def test_commits_that_are_being_made_are_waited_for(lakehouse, done, monkeypatch):
    monkeypatch.setattr(consistent_snapshot, "PATIENCE", 0.1)
    put_done(done, 1, last_written={"windows": 1})
    with lakehouse.job(JOB.name).exclusive("a run"), pytest.raises(KeyfoldError, match="cut off"):
        end_of_run(lakehouse, JOB, done)


def test_slices_that_follow_are_waited_for_and_a_later_run_is_not(lakehouse, done, monkeypatch):
    monkeypatch.setattr(consistent_snapshot, "PATIENCE", 0.1)
    slices = [plan_of(batch, "events.clicks", 1, run=1, batches=2) for batch in (1, 2)]
    done.journal.write_plans(slices)
    with lakehouse.job(JOB.name).exclusive("a run"):
        assert snapshot_of(lakehouse, done).record.batch == 0
        # A batch without rows of a table makes no commit to it.
        put_done(done, 1, last_written=done.journal.last_done().last_written)
        with pytest.raises(KeyfoldError, match="cut off"):
            end_of_run(lakehouse, JOB, done)


def test_rows_and_state_add_up_at_any_moment_of_a_run_that_goes_on(lakehouse, done):
    stop, looks = threading.Event(), 0
    running = threading.Thread(
        target=run_continuously,
        args=(lakehouse, JOB),
        kwargs={"stop": stop, "runners": LOCAL, "every": timedelta(milliseconds=10)},
    )
    running.start()
    try:
        for number in range(1, 6):
            Lake(lakehouse).click(*((user, 30 * number + at) for at, user in enumerate(("ann", "bob", "eve"))))
            batch = 0
            while batch < number:
                assert running.is_alive()
                snapshot = snapshot_of(lakehouse, done)
                batch, looks = snapshot.record.batch, looks + 1
                rows = {
                    name: DeltaTable(str(done.table(name)), version=table.version()).count()
                    for name, table in snapshot.tables.items()
                }
                assert rows == snapshot.record.total_rows
                assert open_events(done, batch) == snapshot.record.open_events
    finally:
        stop.set()
        running.join(60)
    assert looks > 5


def open_events(generation, batch):
    """Clicks that the state of a batch holds, by its manifests."""
    return sum(frame.select(JOB.state.events).item() for frame in frames_of_state(generation, batch))
