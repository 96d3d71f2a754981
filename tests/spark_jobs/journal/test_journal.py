"""The journal's folder: what is planned counts once its first plan is there, and it does not grow with its age."""

from datetime import UTC, datetime

import pytest

from spark_jobs.journal import Done, Journal, Plan
from spark_jobs.journal import journal as module
from spark_jobs.lakehouse import fail_points

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def plans(first, count):
    return [Plan(batch=first + number, run=first, batches=count, planned_at=NOW) for number in range(count)]


def done(batch):
    return Done(batch=batch, run=batch, finished_at=NOW, seconds=1.5, tables={}, last_written={})


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path / "journal", Plan, Done)


def test_a_journal_that_was_never_written_is_empty_and_makes_nothing(journal):
    assert (journal.last_done(), journal.pending(), journal.history(10)) == (None, [], [])
    assert not journal.folder.exists()


def test_what_is_planned_and_not_done_is_pending_in_order(journal):
    journal.write_plans(plans(0, 3))
    journal.write_done(done(0))
    assert [plan.batch for plan in journal.pending()] == [1, 2]
    assert journal.last_done() == done(0)


def test_a_run_whose_planning_broke_off_is_not_planned(journal, monkeypatch):
    def die(point):
        if point == "plan: one of several":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(fail_points, "act", die)
        with pytest.raises(KeyboardInterrupt):
            journal.write_plans(plans(0, 3))
    assert journal.pending() == []
    journal.write_plans(plans(0, 2))
    assert [plan.batches for plan in journal.pending()] == [2, 2]


def test_a_journal_does_not_grow_with_its_age_and_still_tells_of_what_was_long_ago(journal, monkeypatch):
    monkeypatch.setattr(module, "HISTORY", 300)
    for batch in range(1000):
        journal.write_plans(plans(batch, 1))
        journal.write_done(done(batch))
        journal.compact()
    assert len(list(journal.folder.iterdir())) <= 4 * module.KEPT + 1
    told = journal.history(350)
    assert [one.batch for one in told] == list(range(650, 1000))
    assert journal.last_done() == done(999)


@pytest.mark.parametrize("point", ["journal: history written", "journal: old records removed"])
def test_a_crash_while_it_is_compacted_tells_no_batch_twice(journal, monkeypatch, point):
    def die(reached):
        if reached == point:
            raise KeyboardInterrupt

    for batch in range(2 * module.KEPT):
        journal.write_plans(plans(batch, 1))
        journal.write_done(done(batch))
    with monkeypatch.context() as patch:
        patch.setattr(fail_points, "act", die)
        with pytest.raises(KeyboardInterrupt):
            journal.compact()
    journal.compact()
    assert [one.batch for one in journal.history(500)] == list(range(2 * module.KEPT))


def test_files_that_a_killed_process_had_written_aside_are_swept(journal):
    journal.write_plans(plans(0, 1))
    (journal.folder / ".aside-xyz").write_text("half")
    journal.write_done(done(0))
    journal.write_plans(plans(1, 1))
    assert sorted(path.name for path in journal.folder.iterdir()) == [
        "000000000.done.json",
        "000000000.plan.json",
        "000000001.plan.json",
    ]
