"""Corrections of state change each row as plain Python does, wherever its key lies. Without Spark."""

import json
from datetime import timedelta

import polars as pl
import pytest

from keyfold.errors import Damaged, InvalidData, KeyfoldError
from keyfold.journal.audit import Author
from keyfold.keyed.conservation import assert_nothing_lost
from keyfold.keyed.generation.run_mode import Incremental
from keyfold.keyed.job_run import run_job
from keyfold.lakehouse import Lakehouse
from keyfold.maintenance.backup import back_up, restore
from keyfold.maintenance.checking import check
from keyfold.state.changing.editing import Edit, edit_state
from keyfold.state.differences import diff_states
from keyfold.state.reading.reader import read_state
from tests.chained_jobs import DAILY, HOURLY, Chain
from tests.keyfold.keyed.toy_jobs import windows
from tests.keyfold.state.local_state import copied, frames_of_state
from tests.lake import Lake
from tests.power_cuts import points_of
from tests.shop import NOON, START, clicks

BY = Author("dpo@example.org", "request 17")
USERS = [f"user-{number}" for number in range(9)]
# User n clicked n + 1 times in the first ten minutes, and once in the next ten.
COUNTS = {(user, window): (number if window == 0 else 0) + 1 for number, user in enumerate(USERS) for window in (0, 1)}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("7", lambda user, count: 7),
        ("NULL", lambda user, count: None),
        ("clicks * 2", lambda user, count: count * 2),
        ("clicks + MAX(clicks)", lambda user, count: count + COUNTS[user, 0]),
    ],
)
def test_a_correction_is_what_its_preview_shows_in_every_partition(lakehouse, without_spark, expression, expected):
    lakehouse.events("clicks").parent.mkdir(parents=True, exist_ok=True)
    rows = [(user, 10 * window) for (user, window), count in COUNTS.items() for _ in range(count)]
    clicks(*rows).write_delta(str(lakehouse.events("clicks")))
    job = windows(delay=timedelta(hours=1))
    run_job(lakehouse, job, runners=without_spark)
    wanted = {
        (user, START + timedelta(minutes=10 * window)): count if user == "user-0" else expected(user, count)
        for (user, window), count in COUNTS.items()
    }
    edit = Edit(tuple(USERS[1:]), {"clicks": expression}, Author("a test", "to try it"))
    edited = edit_state(lakehouse, job, edit, yes=True, runners=without_spark)
    live = Lake(lakehouse).live(job.name)
    state = pl.concat(frames_of_state(live, edited.batch))
    found = {(user, window): count for user, window, count in state.select("user", "window", "clicks").iter_rows()}
    assert found == wanted
    shown = edited.rows_after.filter(pl.col("user") != "user-0").select("user", "window", "clicks")
    assert {(user, window): count for user, window, count in shown.iter_rows()} == {
        key: count for key, count in wanted.items() if key[0] != "user-0"
    }


def test_a_correction_reads_no_file(lakehouse, without_spark):
    edit = Edit(("ann",), {"clicks": "(SELECT z FROM read_csv('/etc/passwd'))"}, Author("a test", "to try it"))
    with pytest.raises(InvalidData, match=r"--set clicks=\(SELECT z .*: SELECT is not allowed"):
        edit_state(lakehouse, windows(), edit, yes=True, runners=without_spark)


def test_a_key_s_state_is_corrected_and_what_was_done_is_written_down(without_spark, lake, minutes, tmp_path):
    lake.click(("ann", 1), ("bob", 2))
    lake.run(windows())
    edit = Edit(("ann",), {"clicks": "clicks + 41"}, BY)
    shown = edit_state(lake.lakehouse, windows(), edit, runners=without_spark)
    assert (shown.batch, shown.rows_after["clicks"].to_list()) == (None, [42])
    edited = edit_state(lake.lakehouse, windows(), edit, yes=True, runners=without_spark)
    assert (edited.batch, edited.rows_before["clicks"].to_list()) == (1, [1])
    (_, told), (then, now) = history(lake), (read_state(lake.lakehouse, windows(), batch=batch) for batch in (0, 1))
    assert (told.read, told.made) == (
        "1 key corrected by dpo@example.org: request 17",
        "1 row of state in place of 1; 43 open",
    )
    assert diff_states(then, now).summary().columns == {"clicks": 1}
    assert assert_nothing_lost(lake.lakehouse, windows()).open_events == 43
    # Of the stream nothing is known: its events were not ingested.
    assert [one for one in check(lake.lakehouse) if "/ingest/" not in one.path] == []
    with pytest.raises(Damaged, match=r"is made, but lacks .*/ingest/clicks/ingest.json is gone"):
        back_up(lake.lakehouse, tmp_path / "backups")
    restore(tmp_path / "backups", Lakehouse(tmp_path / "restored"))
    assert read_state(Lakehouse(tmp_path / "restored"), windows(), keys=["ann"]).polars()["clicks"].to_list() == [42]
    lake.run(windows(), Incremental(advance_to=minutes(90)))
    assert lake.rows("windows") == [("ann", minutes(0), 42), ("bob", minutes(0), 1)]
    audited = pl.read_delta(str(lake.lakehouse.monitoring("edits"))).row(0, named=True)
    assert (audited["what"], audited["generation"]) == ("corrected", "generation-0001")
    assert json.loads(audited["keys"]) == [{"user": "ann"}]


def test_a_key_s_state_is_removed(without_spark, lake, minutes):
    lake.click(("ann", 1), ("bob", 2))
    lake.run(windows())
    edit_state(lake.lakehouse, windows(), Edit(("ann",), {}, BY), yes=True, runners=without_spark)
    assert assert_nothing_lost(lake.lakehouse, windows()).events_read == 1
    summary = lake.run(windows(), Incremental(advance_to=minutes(90)))
    assert lake.rows("windows") == [("bob", minutes(0), 1)]
    assert assert_nothing_lost(lake.lakehouse, windows()).in_outputs == summary.totals.events == 1


def history(lake):
    """What the journal tells of the job's batches."""
    return lake.live("windows").journal.history(9)


def test_wherever_the_power_fails_an_edit_is_done_whole_or_not_at_all(
    without_spark, lake, minutes, monkeypatch, cut_power
):
    def write(lakehouse):
        edit_state(lakehouse, windows(), Edit(("ann",), {"clicks": "7"}, BY), yes=True, runners=without_spark)

    def after(lakehouse):
        there = Lake(lakehouse, without_spark)
        there.run(windows(), Incremental(advance_to=minutes(90)))
        assert_nothing_lost(lakehouse, windows())
        live = there.live("windows")
        named = {name for done in live.journal.recent() for name in done.manifests}
        assert {path.name for path in live.manifests.iterdir()} == named, "no attempt left anything"
        return there.rows("windows")

    lake.click(("ann", 1), ("bob", 2))
    lake.run(windows())
    lake.click(("ann", 3))
    passed = points_of(monkeypatch, lambda: write(copied(lake.lakehouse, "passed")))
    points = [point for point, count in passed if count == 1]
    assert {"plan: after", "state: manifests written", "done: after"} <= set(points)
    old, new = ([("ann", minutes(0), clicks), ("bob", minutes(0), 1)] for clicks in (2, 8))
    for number, point in enumerate(points):
        cut = copied(lake.lakehouse, f"cut-{number}")
        assert cut_power(point, lambda lakehouse=cut: write(lakehouse))
        if Lake(cut).done("windows").edited:
            assert after(cut) == new, point
        else:
            assert after(copied(cut, f"also-{number}")) == old, point
            write(cut)
            assert after(cut) == new, point


def test_who_and_why_are_asked_for():
    with pytest.raises(KeyfoldError, match="--why is empty"):
        Author("me", " ")


def test_parts_that_an_edit_replaces_are_deleted_once_no_retained_batch_needs_them(without_spark, lake):
    users = [f"user-{number * 2654435761 % 2**32:08x}" for number in range(40_000)]
    lake.click(*((user, 1) for user in users))
    lake.run(windows())
    parts = {path.name for path in lake.live("windows").parts.iterdir()}
    assert parts, "the state is too large for a manifest"
    edit_state(lake.lakehouse, windows(), Edit(tuple(users), {"clicks": "2"}, BY), yes=True, runners=without_spark)
    assert set(lake.done("windows").dropped_parts) == parts


def test_a_job_that_reads_the_tables_of_an_edited_one_goes_on(tmp_path):
    site = Chain(tmp_path / "home")
    site.click(("ann", 0), ("bob", 70))
    site.run(HOURLY)
    site.run(DAILY)
    edit_state(site.lakehouse, HOURLY, Edit(("bob",), {"clicks": "5"}, BY), yes=True, runners=site.spark)
    assert site.run(DAILY).counts.events == 0
    site.run(HOURLY, Incremental(NOON + timedelta(days=2)))
    site.run(DAILY)
    assert site.table("daily") == [(user, NOON.replace(hour=0), clicks) for user, clicks in (("ann", 1), ("bob", 5))]
    assert_nothing_lost(site.lakehouse, DAILY)
