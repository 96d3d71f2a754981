"""Corrections of state change each row as plain Python does, wherever its key lies. Without Spark."""

import json
from datetime import timedelta

import polars as pl
import pytest

from keyfold.errors import InvalidData, KeyfoldError
from keyfold.keyed.generation.run_mode import Incremental
from keyfold.keyed.runner import run_job
from keyfold.state.changing.audit import Author
from keyfold.state.changing.editing import Edit, edit_state
from tests.keyfold.keyed.toy_jobs import START, clicks, windows
from tests.keyfold.state.local_state import frames_of_state
from tests.lake import Lake

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
    edited = edit_state(lakehouse, job, edit, runners=without_spark)
    live = Lake(lakehouse).live(job.name)
    state = pl.concat(frames_of_state(live, 0))
    found = {(user, window): count for user, window, count in state.select("user", "window", "clicks").iter_rows()}
    assert found == wanted
    shown = edited.rows_after.filter(pl.col("user") != "user-0").select("user", "window", "clicks")
    assert {(user, window): count for user, window, count in shown.iter_rows()} == {
        key: count for key, count in wanted.items() if key[0] != "user-0"
    }


def test_a_correction_reads_no_file(lakehouse, without_spark):
    edit = Edit(("ann",), {"clicks": "(SELECT z FROM read_csv('/etc/passwd'))"}, Author("a test", "to try it"))
    with pytest.raises(InvalidData, match=r"--set clicks=\(SELECT z .*: SELECT is not allowed"):
        edit_state(lakehouse, windows(), edit, runners=without_spark)


def test_a_key_s_state_is_corrected_and_what_was_done_is_written_down(without_spark, lake, minutes):
    lake.click(("ann", 1), ("bob", 2))
    lake.run(windows())
    edit = Edit(("ann",), {"clicks": "clicks + 41"}, BY)
    shown = edit_state(lake.lakehouse, windows(), edit, dry_run=True, runners=without_spark)
    assert (shown.generation, shown.rows_after["clicks"].to_list()) == (None, [42])
    edited = edit_state(lake.lakehouse, windows(), edit, runners=without_spark)
    assert (edited.generation, edited.rows_before["clicks"].to_list()) == ("generation-0002", [1])
    lake.run(windows(), Incremental(advance_to=minutes(90)))
    assert lake.rows("windows") == [("ann", minutes(0), 42), ("bob", minutes(0), 1)]
    audited = pl.read_delta(str(lake.lakehouse.monitoring("edits"))).row(0, named=True)
    assert (audited["what"], audited["generation"]) == ("corrected", "generation-0002")
    assert json.loads(audited["keys"]) == [{"user": "ann"}]


def test_a_key_s_state_is_removed(without_spark, lake, minutes):
    lake.click(("ann", 1), ("bob", 2))
    lake.run(windows())
    edit_state(lake.lakehouse, windows(), Edit(("ann",), {}, BY), runners=without_spark)
    summary = lake.run(windows(), Incremental(advance_to=minutes(90)))
    assert lake.rows("windows") == [("bob", minutes(0), 1)]
    assert summary.totals.events == 1


def test_who_and_why_are_asked_for():
    with pytest.raises(KeyfoldError, match="--why is empty"):
        Author("me", " ")
