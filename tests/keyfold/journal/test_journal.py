"""The journal's folder: what is planned counts once its first plan is there, and it does not grow with its age; its clocks and digests."""

import contextlib
import itertools
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from keyfold.errors import Damaged, KeyfoldError
from keyfold.journal import Done, Journal, Plan, history
from keyfold.journal import journal as module
from keyfold.journal.archive import add_to_archive, read_archive
from keyfold.journal.clock import Reading, ignore_jumps
from keyfold.journal.sealed import sealed
from keyfold.lakehouse import fail_points
from keyfold.storage.bucket_path import BucketPath
from tests.examples import examples
from tests.shop import HOUR, NOON

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def plans(first, count, at=NOW):
    return [Plan(batch=first + number, run=first, batches=count, planned_at=at) for number in range(count)]


def done(batch):
    return Done(batch=batch, run=batch, finished_at=NOW, seconds=1.5, tables={}, last_written={})


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path / "journal", Plan, Done)


@pytest.fixture(params=["disk", "object store"])
def on_either(request, journal):
    """A journal on a disk, and one in an object store."""
    if request.param == "disk":
        return journal
    return Journal(BucketPath(f"s3a://{request.getfixturevalue('bucket')}/home/journal"), Plan, Done)


def test_a_journal_that_was_never_written_is_empty_and_makes_nothing(on_either):
    assert (on_either.last_done(), on_either.pending(), on_either.history(10)) == (None, [], [])
    assert not on_either.folder.exists()


def test_what_is_planned_and_not_done_is_pending_in_order(on_either):
    on_either.write_plans(plans(0, 3))
    on_either.write_done(done(0))
    assert [plan.batch for plan in on_either.pending()] == [1, 2]
    assert on_either.last_done() == done(0)


def test_a_run_whose_planning_broke_off_is_not_planned(on_either, monkeypatch):
    def die(point):
        if point == "plan: one of several":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(fail_points, "act", die)
        with pytest.raises(KeyboardInterrupt):
            on_either.write_plans(plans(0, 3))
    assert on_either.pending() == []
    on_either.write_plans(plans(0, 2))
    assert [plan.batches for plan in on_either.pending()] == [2, 2]


def test_a_journal_does_not_grow_with_its_age_and_still_tells_of_what_was_long_ago(journal, monkeypatch):
    monkeypatch.setattr(history, "HISTORY", 300)
    for batch in range(1000):
        journal.write_plans(plans(batch, 1))
        journal.write_done(done(batch))
        journal.compact()
    assert len(list(journal.folder.iterdir())) <= 4 * module.KEPT + 1
    told = journal.history(350)
    assert [one.batch for one in told] == list(range(650, 1000))
    assert journal.last_done() == done(999)


@pytest.mark.parametrize(
    "point", ["journal: records archived", "journal: history written", "journal: old records removed"]
)
def test_a_crash_while_it_is_compacted_tells_no_batch_twice(journal, monkeypatch, point):
    def die(reached):
        if reached == point:
            raise KeyboardInterrupt

    for batch in range(2 * module.KEPT):
        journal.write_plans(plans(batch, 1))
        journal.write_done(done(batch))

    def archive(batches):
        add_to_archive(journal.folder / "archive", [{"batch": record.batch} for _, record in batches])

    with monkeypatch.context() as patch:
        patch.setattr(fail_points, "act", die)
        with pytest.raises(KeyboardInterrupt):
            journal.compact(archive)
    journal.compact(archive)
    assert [one.batch for one in journal.history(500)] == list(range(2 * module.KEPT))
    assert read_archive(journal.folder / "archive")["batch"].to_list() == list(range(module.KEPT))


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


def test_plans_that_a_broken_off_planning_left_count_no_later_either(on_either):
    """Two runs planned seven batches and three; the first broke off before its first plan."""
    for plan in plans(0, 7)[3:]:
        write_plan(on_either, plan)
    on_either.write_plans(plans(0, 3, NOW + timedelta(seconds=1)))
    assert [plan.batch for plan in on_either.pending()] == [0, 1, 2]
    for batch in range(3):
        on_either.write_done(done(batch))
    assert (on_either.pending(), on_either.planned(3)) == ([], None)
    assert [one.batch for one in on_either.history(10)] == [0, 1, 2]
    on_either.write_plans(plans(3, 2, NOW + timedelta(seconds=2)))
    assert [plan.batches for plan in on_either.pending()] == [2, 2]


def test_a_plan_that_is_lost_in_the_midst_of_a_run_is_no_end_of_it(on_either):
    on_either.write_plans(plans(0, 3))
    on_either.write_done(done(0))
    (on_either.folder / "000000001.plan.json").unlink()
    for look in (on_either.pending, lambda: on_either.planned(1)):
        with pytest.raises(KeyfoldError, match=r"000000001.plan.json is gone.*restore it from a backup, or start over"):
            look()


class _Stopped(Exception):
    """Stands for a process that is frozen."""


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    left_over=st.integers(1, 4),
    stopped_at=st.integers(0, 4),
    thawed_at=st.integers(0, 5),
)
def test_a_planner_that_was_frozen_before_any_of_its_writes_and_thawed_in_any_of_another_s_harms_no_plan(
    bucket, sizes, left_over, stopped_at, thawed_at
):
    """One write of the first comes late: at each of the second's, or after all of them; a run before had broken off."""
    folder = BucketPath(f"s3a://{bucket}/journal-{next(_numbers)}")
    journal = Journal(folder, Plan, Done)
    late = []
    for plan in plans(0, left_over, NOW - timedelta(seconds=1))[1:]:
        write_plan(journal, plan)

    replace_content = BucketPath.replace_content

    def freeze(path, content, tag):
        if len(late_writes) == stopped_at:
            late.append((path, content, tag))
            raise _Stopped
        late_writes.append(path)
        replace_content(path, content, tag)

    def thaw(path, content, tag):
        if len(seen) == thawed_at:
            land()
        seen.append(path)
        replace_content(path, content, tag)

    def land():
        for write in late:
            with contextlib.suppress(KeyfoldError):
                replace_content(*write)
        late.clear()

    late_writes, seen = [], []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BucketPath, "replace_content", freeze)
        with contextlib.suppress(_Stopped):
            journal.write_plans(plans(0, sizes[0]))
        patch.setattr(BucketPath, "replace_content", thaw)
        # Who takes over works on what is pending, and plans where nothing is; refused, a third does.
        for attempt in range(3):
            if not journal.pending():
                with contextlib.suppress(KeyfoldError):
                    journal.write_plans(plans(0, sizes[1], NOW + timedelta(seconds=1 + attempt)))
        land()
    pending = journal.pending()
    assert pending
    assert {(plan.run, plan.batches, plan.planned_at) for plan in pending} == {(0, len(pending), pending[0].planned_at)}
    for plan in pending:
        assert journal.planned(plan.batch) == plan
        journal.write_done(done(plan.batch))
    assert (journal.pending(), journal.planned(len(pending))) == ([], None)


def broken(record):
    """A record without its end, at each byte; with another bit, at each bit; and as one that has no digest."""
    yield from (record[:end] for end in range(len(record)))
    for at in range(len(record)):
        yield from (record[:at] + bytes([record[at] ^ 1 << bit]) + record[at + 1 :] for bit in range(8))
    yield record.partition(b"\n")[0]
    yield record + b"\n"


@pytest.mark.parametrize("name", ["000000000.plan.json", "000000000.done.json", "clock.json"])
def test_a_record_that_is_torn_or_edited_anywhere_is_refused(journal, name):
    journal.write_plans(plans(0, 1))
    journal.write_done(done(0))
    journal.write_record("clock.json", done(7))
    read = {
        "000000000.plan.json": lambda: journal.plan(0),
        "000000000.done.json": journal.last_done,
        "clock.json": lambda: journal.read_record("clock.json", Done),
    }[name]
    record, path = read(), journal.folder / name
    content = path.read_bytes()
    for other in broken(content):
        path.write_bytes(other)
        with pytest.raises(Damaged, match=rf"{name} is damaged, .*restore it from a backup, or start over"):
            read()
    path.write_bytes(content)
    assert read() == record


@pytest.mark.parametrize("kind", ["plan", "done"])
def test_a_record_of_another_batch_under_its_name_is_refused(journal, kind):
    journal.write_plans(plans(0, 2))
    for batch in range(2):
        journal.write_done(done(batch))
    journal.path(1, kind).write_bytes(journal.path(0, kind).read_bytes())
    with pytest.raises(Damaged, match=rf"000000001\.{kind}\.json is damaged, .*it is that of batch 0"):
        getattr(journal, kind)(1)


def test_in_an_object_store_a_batch_is_done_once_whoever_comes_second(bucket):
    journal = Journal(BucketPath(f"s3a://{bucket}/journal"), Plan, Done)
    journal.write_plans(plans(0, 1))
    journal.write_done(done(0))
    journal.write_done(done(0))
    with pytest.raises(
        KeyfoldError, match=r"000000000.done.json was written by another run.*this run committed nothing"
    ):
        journal.write_done(done(0).model_copy(update={"seconds": 2.0}))
    assert journal.last_done() == done(0)


def write_plan(journal, plan):
    content = sealed(plan.model_dump_json(exclude_defaults=True).encode(), plan.batch)
    (journal.folder / f"{plan.batch:09d}.plan.json").write_once(content)


_numbers = itertools.count()


def reading(wall, uptime, boot="this", offset=0.0):
    return Reading(wall=wall, uptime=uptime, boot=boot, offset=offset)


@pytest.mark.parametrize(("jump", "told"), [(timedelta(days=365), "ahead by 365 days"), (-HOUR, "back by 1:00:00")])
def test_a_jump_of_the_clock_is_said_once_and_not_followed(jump, told):
    before = reading(NOON, 100)
    jumped, warning = ignore_jumps(before, reading(NOON + jump + timedelta(seconds=60), 160))
    assert jumped.time == NOON + timedelta(seconds=60)
    assert told in (warning or "")
    later, warning = ignore_jumps(jumped, reading(NOON + jump + timedelta(seconds=120), 220))
    assert (later.time, warning) == (NOON + timedelta(seconds=120), None)


def test_after_a_restart_or_on_another_machine_the_clock_is_taken_as_it_is():
    assert ignore_jumps(reading(NOON, 100), reading(NOON + 50 * HOUR, 3, boot="another"))[0].time == NOON + 50 * HOUR


def test_time_that_an_earlier_clock_had_reached_goes_on_from_there_after_each_restart():
    ahead, warnings = NOON + timedelta(days=365), []
    before = reading(ahead, 100)
    for number in range(1, 4):
        then = reading(NOON + number * HOUR, 3, boot=f"restart {number}")
        before, warning = ignore_jumps(before, then, ahead + (number - 1) * HOUR)
        warnings.append(warning)
        assert before.time == ahead + (number - 1) * HOUR
    assert "jumped back by 364 days, 23:00:00" in (warnings[0] or "")
    assert warnings[1:] == [None, None]
