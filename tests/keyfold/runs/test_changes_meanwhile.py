"""What reads, maintains or copies a lakehouse while events are changed, or after such a call was cut off, loses and spoils nothing."""

import hashlib
import json
import re
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from functools import partial

import polars as pl
import pytest
from deltalake import DeltaTable

import keyfold
from keyfold.errors import KeyfoldError, Locked
from keyfold.ingestion import event_rewrites
from keyfold.journal.audit import Author
from keyfold.lakehouse import fail_points
from keyfold.maintenance import backup as backups
from keyfold.maintenance import backup_parts, maintain
from keyfold.runs.event_changes import correct, erase, quarantine
from keyfold.runs.table_maintenance import tables_of_ingest
from tests.keyfold.runs.changes_of_clicks import (
    AGAIN,
    BY,
    EVENT,
    JOB,
    LATE,
    PREPARED,
    QUARANTINED,
    REFRESHED,
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

POINTS = [*PREPARED, *QUARANTINED, *REFRESHED]


@pytest.fixture(scope="module")
def ingested(tmp_path_factory):
    lake = ingested_clicks(tmp_path_factory.mktemp("ingested") / "home")
    lake.run(JOB)
    return lake


@pytest.fixture
def lake(ingested, tmp_path):
    return copy_of(ingested, tmp_path / "home")


@pytest.fixture
def cut(monkeypatch):
    return partial(cut_at, monkeypatch, error=CutOff("cut off here"))


@pytest.fixture
def at_each_point(monkeypatch):
    """Call a function at each point that a call comes to; return the points."""

    def calls(look, call):
        points = []

        def act(reached):
            points.append(reached)
            with monkeypatch.context() as inner:
                inner.setattr(fail_points, "act", lambda _: None)
                look(reached)

        with monkeypatch.context() as patch:
            patch.setattr(fail_points, "act", act)
            call()
        return points

    return calls


def take_bob_out(lake):
    return take_out(lake, [LATE, JOB], ("bob", 2))


def erase_bob(lake):
    return erase(lake.lakehouse, CLICKS, [LATE, JOB], {"user": ["bob"]}, BY, yes=True, runners=lake.session)


def places_of(lake, user):
    """How often the event of a user is in the event table and in quarantine."""
    rejects = pl.read_delta(str(lake.lakehouse.quarantine("clicks")))["raw"]
    events = [name for name, *_ in lake.rows("events.clicks", "user")]
    return Counter(events)[user], Counter(json.loads(raw)["user"] for raw in rejects)[user]


def maintained(lake):
    return [maintain(lake.lakehouse, table, timedelta(0)) for table in tables_of_ingest(lake.lakehouse, CLICKS)]


def is_right(lake, *, lands=True):
    """Whether bob's click is in quarantine alone, and can land again, and all is counted."""
    for job in (LATE, JOB):
        keyfold.run(lake.lakehouse, job, runners=lake.session)
    assert not calls_left(lake)
    assert stored(lake) == (REST, [("bob", 666)])
    if lands:
        lake.land(CLICKS, events(AGAIN, ("cat", 3, 3)))
        assert stored(lake) == (sorted([*REST, ("bob", 6)]), [("bob", 666)])
        assert clicks_of_jobs(lake, [LATE, JOB]) == [sorted([*REST, ("bob", 6)])] * 2
    return True


def test_a_reader_sees_an_event_that_is_taken_out_in_one_of_the_tables_at_all_times(lake, at_each_point):
    seen = {}
    points = at_each_point(lambda point: seen.setdefault(point, places_of(lake, "bob")), lambda: take_bob_out(lake))
    assert set(points) >= set(POINTS)
    assert list(dict.fromkeys(seen.values())) == [(1, 0), (1, 1), (0, 1)]
    # In both only between the two commits.
    assert [point for point, places in seen.items() if places == (1, 1)] == ["rewrite: quarantine changed"]


@pytest.mark.parametrize("point", POINTS)
def test_maintenance_leaves_the_tables_of_a_call_alone_that_was_cut_off(lake, cut, point):
    assert cut(point, call=lambda: take_bob_out(lake))
    is_waiting = point in QUARANTINED and point != "rewrite: applied"
    before = set(lake.lakehouse.home.rglob("*.parquet"))
    done = maintained(lake)
    for table in done:
        assert ("the next ingest finishes it: `keyfold ingest clicks" in (table.not_deleted or "")) == is_waiting
        assert is_waiting <= (table.files_before == table.files_after)
    assert not is_waiting or before <= set(lake.lakehouse.home.rglob("*.parquet"))
    if point in PREPARED:
        take_bob_out(lake)
    assert is_right(lake, lands=point in ("rewrite: decided", "rewrite: quarantine changed"))


def test_maintenance_beside_a_call_waits_until_the_tables_are_changed(lake, at_each_point):
    said = {}

    def look(point):
        said[point] = [table.not_deleted or "" for table in maintained(lake)]

    at_each_point(look, lambda: take_bob_out(lake))
    for point, texts in said.items():
        is_locked = point in PREPARED or point in QUARANTINED
        assert all(("maintenance of the tables of clicks" in text) == is_locked for text in texts), point
    assert is_right(lake)


def test_a_call_that_comes_while_maintenance_runs_waits_and_changes_nothing_if_it_takes_too_long(lake, monkeypatch):
    monkeypatch.setattr(event_rewrites.replacing_files, "__defaults__", (timedelta(seconds=0.2),))
    with event_rewrites.replacing_files(lake.lakehouse, "clicks"), pytest.raises(Locked, match="maintenance"):
        take_bob_out(lake)
    assert places_of(lake, "bob") == (1, 0)
    assert not calls_left(lake)
    take_bob_out(lake)
    assert is_right(lake, lands=False)


@pytest.mark.parametrize("point", ["rewrite: decided", "rewrite: quarantine changed"])
def test_a_call_whose_files_another_program_has_replaced_is_given_up_and_loses_nothing(lake, cut, point):
    assert cut(point, call=lambda: take_bob_out(lake))
    DeltaTable(str(lake.lakehouse.events("clicks"))).optimize.compact()
    with pytest.raises(Locked, match=r"replaced files.*no event was changed: repeat the call"):
        lake.land(CLICKS, events(("eve", 5, 5)))
    assert places_of(lake, "bob")[0] == 1
    assert not calls_left(lake)
    take_bob_out(lake)
    assert places_of(lake, "bob")[0] == 0
    keyfold.ingest(lake.lakehouse, CLICKS, runners=lake.session)
    assert clicks_of_jobs(lake, [LATE, JOB]) == [sorted([*REST, ("eve", 5)])] * 2


@pytest.mark.parametrize("point", POINTS)
def test_a_backup_of_a_call_that_was_cut_off_is_finished_where_it_is_restored(lake, cut, tmp_path, point):
    assert cut(point, call=lambda: take_bob_out(lake))
    backups.back_up(lake.lakehouse, tmp_path / "backups")
    restored = Lake(tmp_path / "restored")
    backups.restore(tmp_path / "backups", restored.lakehouse)
    restored.landed = lake.landed
    assert sum(places_of(restored, "bob")) >= 1
    if point in PREPARED:
        take_bob_out(restored)
    else:
        # The event lands again, right, before anybody repeats the call.
        restored.land(CLICKS, events(AGAIN, ("cat", 3, 3)))
        for job in (LATE, JOB):
            keyfold.run(restored.lakehouse, job, runners=restored.session)
        assert not calls_left(restored)
        assert stored(restored) == (sorted([*REST, ("bob", 6)]), [("bob", 666)])
        assert clicks_of_jobs(restored, [LATE, JOB]) == [sorted([*REST, ("bob", 6)])] * 2


@pytest.mark.parametrize("table", ["events", "quarantine"])
@pytest.mark.parametrize("kind", ["quarantine", "erasure", "quarantine that concerns no job"])
def test_a_backup_beside_a_call_is_of_one_moment(lake, monkeypatch, tmp_path, kind, table):
    """The call begins when one table is listed, and ends before the other one is."""
    original, begun = backup_parts._table, []
    if kind == "quarantine that concerns no job":
        lake = ingested_clicks(tmp_path / "other")
        # So that the audit is there, whose first entry makes a new part of the backup.
        take_out(lake, [LATE], ("dan", 4))

    def table_of(path, *rest):
        files = list(original(path, *rest))
        if path == getattr(lake.lakehouse, table)("clicks") and not begun:
            begun.append(path)
            if kind == "erasure":
                erase_bob(lake)
            else:
                take_out(lake, [LATE] if "no job" in kind else [LATE, JOB], ("bob", 2))
        return files

    monkeypatch.setattr(backup_parts, "_table", table_of)
    backups.back_up(lake.lakehouse, tmp_path / "backups")
    assert begun
    restored = Lake(tmp_path / "restored")
    backups.restore(tmp_path / "backups", restored.lakehouse)
    assert places_of(restored, "bob") == ((0, 0) if kind == "erasure" else (0, 1))
    assert stored(restored) == stored(lake)


def test_a_backup_beside_calls_that_never_end_is_refused(lake, monkeypatch, tmp_path):
    numbers = iter(range(100))
    monkeypatch.setattr(backups, "changes_of_events", lambda _: next(numbers))
    with pytest.raises(KeyfoldError, match="events were changed meanwhile"):
        backups.back_up(lake.lakehouse, tmp_path / "backups")


def texts_below(folder):
    return b"\n".join(path.read_bytes() for path in folder.rglob("*") if path.is_file()).decode(errors="replace")


@pytest.mark.parametrize("point", [*QUARANTINED, *REFRESHED[:2]])
def test_a_record_holds_no_private_value_nor_a_digest_of_one(tmp_path, monkeypatch, point):
    private = replace(CLICKS, private=["user"])
    lake = Lake(tmp_path / "home")
    lake.land(private, events(EVENT, ("ann", 1, 1)))
    event = json.dumps({"user": "bob", "at": "2026-01-01T00:02:00Z"})

    def call():
        quarantine(lake.lakehouse, private, [], [event], Author("x", "y"), yes=True, runners=lake.session)

    if not cut_at(monkeypatch, point, CutOff("cut off here"), call):
        return
    text = texts_below(lake.lakehouse.rewrites)
    assert text
    assert "bob" not in text
    # Not within a name of a file, which is of random hexadecimal digits.
    assert not re.search(r"(?<![0-9a-f])666(?![0-9a-f])", text)
    # What an attacker can try: each text of one to three letters that is in the call, alone or as JSON.
    for guess in ("bob", '"bob"', '["bob"]', event, f"['{event}']"):
        assert hashlib.sha256(guess.encode()).hexdigest() not in text


@pytest.mark.parametrize("first", ["correction", "quarantine"])
def test_what_names_events_leaves_a_record_with_the_audit_and_files_of_a_cut_off_call_go_with_an_erasure(
    lake, cut, tmp_path, first
):
    events(AGAIN).write_parquet(tmp_path / "right.parquet")

    def call():
        if first == "quarantine":
            return take_bob_out(lake)
        source = str(tmp_path / "right.parquet")
        return correct(lake.lakehouse, CLICKS, [LATE, JOB], source, BY, yes=True, runners=lake.session)

    # Written, and never decided: the files have the rows of everybody who was in the same file.
    assert cut("rewrite: files written", call=call)
    # Applied, and its jobs left to others: the record stays.
    assert cut("rewrite: applied", call=call)
    assert calls_left(lake)
    assert "bob" not in texts_below(lake.lakehouse.rewrites)
    dan = erase(lake.lakehouse, CLICKS, [LATE, JOB], {"user": ["dan"]}, BY, yes=True, runners=lake.session)
    assert dan.rows["events.clicks"] == 1
    assert not calls_left(lake)
    files = [path for path in lake.lakehouse.home.rglob("*.parquet") if "landing" not in path.parts]
    assert [path for path in files if "dan" in str(pl.read_parquet(path).rows())] == []


def test_an_erasure_keeps_the_files_of_a_batch_that_is_recorded_and_not_committed(lake, cut, tmp_path):
    assert cut("done: after", call=lambda: erase_bob(lake))
    assert calls_left(lake)
    landing = lake.lakehouse.landing("clicks")
    events(("eve", 5, 5)).write_parquet(landing / "9999.parquet")
    # An ingest is cut off between its record and its commit; a run of the jobs ends the erasure.
    assert cut("done: after", call=lambda: keyfold.ingest(lake.lakehouse, CLICKS, runners=lake.session))
    for job in (LATE, JOB):
        keyfold.run(lake.lakehouse, job, runners=lake.session)
    assert not calls_left(lake)
    keyfold.ingest(lake.lakehouse, CLICKS, runners=lake.session)
    assert stored(lake) == (sorted([*REST, ("eve", 5)]), [])
    assert clicks_of_jobs(lake, [LATE, JOB]) == [sorted([*REST, ("eve", 5)])] * 2
