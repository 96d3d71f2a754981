"""Every shipped job: state that is read and seeded, or moved, goes on as if it had never stopped. Without Spark."""

import shutil
from typing import NamedTuple

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from keyfold.keyed.generation.run_mode import Incremental
from keyfold.keyed.job.building import build_job
from keyfold.keyed.job_run import RunSummary, run_job
from keyfold.lakehouse import Lakehouse
from keyfold.state.changing.moving import move
from keyfold.state.making.seeding import SeedSource, seed_job
from keyfold.state.reading.reader import read_state
from keyfold.state.rows.lines import json_lines
from keyfold.storage.disk_path import DiskPath
from keyfold.testing import combined
from spark_jobs.jobs.registry import JOBS
from tests.keyfold.state.accounts import accounted_for, copies_of, counted, state_of, table_of
from tests.keyfold.state.job_histories import END, HISTORIES, History, put
from tests.lake import LOCAL

FIRST = {history.name: history for history in reversed(HISTORIES)}
every_job = pytest.mark.parametrize(
    "history",
    # In `make test` each job once; with its other parameters in `make slow-tests`.
    [
        pytest.param(history, id=str(history), marks=() if history is FIRST[history.name] else pytest.mark.slow)
        for history in HISTORIES
    ],
)


def test_every_shipped_job_has_a_history():
    # Jobs of several inputs are tried in test_tools_on_several_inputs.py; those of another job's table have its history.
    jobs = {name: build_job(JOBS[name]) for name in JOBS}
    of_a_stream = {name for name, job in jobs.items() if len(job.inputs) == 1 and not job.lookups and not job.producers}
    assert {history.name for history in HISTORIES} == of_a_stream


def run(lakehouse, job, parts, *, to_the_end=False):
    """Land each part and run; gives the last run's summary."""
    summary = None
    for part in parts:
        put(lakehouse, job.only_input.stream.name, part)
        summary = run_job(lakehouse, job, runners=LOCAL)
    if to_the_end:
        summary = run_job(lakehouse, job, Incremental(advance_to=END), runners=LOCAL)
    assert summary is not None
    return summary


def copied(lakehouse, tmp_path, name):
    shutil.copytree(lakehouse.home, tmp_path / name)
    return Lakehouse(tmp_path / name)


class Whole(NamedTuple):
    """A job that never stopped: its lakehouse and last summary after two parts, after all, and at the end of time."""

    begun: Lakehouse
    begun_with: RunSummary
    went_on: Lakehouse
    ended: Lakehouse
    ended_with: RunSummary


@pytest.fixture(scope="module")
def whole_of(tmp_path_factory):
    """Run each history once for all tests, which copy what they change."""
    known: dict[str, Whole] = {}

    def whole_of(history: History) -> Whole:
        if str(history) not in known:
            folder, job, parts = DiskPath(tmp_path_factory.mktemp("whole")), history.job(), history.parts()
            lakehouse = Lakehouse(folder / "home")
            begun_with = run(lakehouse, job, parts[:2])
            begun = copied(lakehouse, folder, "begun")
            run(lakehouse, job, parts[2:])
            went_on = copied(lakehouse, folder, "went_on")
            ended_with = run(lakehouse, job, (), to_the_end=True)
            known[str(history)] = Whole(begun, begun_with, went_on, lakehouse, ended_with)
        return known[str(history)]

    return whole_of


def assert_goes_on(whole, other, job, before):
    """See that two lakehouses came to the same; `before` is what the first one's tables held where the other began."""
    for table in job.tables:
        expected, found = (table_of(one, job, table) for one in (whole, other))
        earlier = before[table.name]
        if table.key:
            found = pl.concat([found, earlier.join(found, on=table.key, how="anti")])
        else:
            found = pl.concat([earlier, found])
        if table.name == job.late_table:
            found, expected = combined(job, found, 1), combined(job, expected, 1)
        assert_frame_equal(unread(found), unread(expected), check_row_order=False, check_exact=True)
    assert_frame_equal(state_of(other, job), state_of(whole, job), check_row_order=False, check_exact=True)


def unread(rows):
    """Without the processing time at which a service was given up."""
    return rows.drop("failed_at", strict=False)


def tables_of(lakehouse, job):
    return {table.name: table_of(lakehouse, job, table) for table in job.tables}


@every_job
def test_state_that_is_read_and_seeded_goes_on_as_if_it_had_never_stopped(tmp_path, whole_of, history: History):
    job, parts, whole = history.job(), history.parts(), whole_of(history)
    seeded = copied(whole.begun, tmp_path, "seeded")
    read = read_state(seeded, job).polars()
    assert read.height
    path = tmp_path / "state.jsonl"
    # As `keyfold state read --to` writes it.
    path.write_text("".join(f"{line}\n" for line in json_lines(read)))
    told = seed_job(seeded, job, SeedSource(str(path)), yes=True, runners=LOCAL)
    assert (told.checked.rows, told.new_rows, told.checked.left_empty) == (read.height, 0, ())
    assert told.checked.events == whole.begun_with.totals.open_events
    assert_frame_equal(state_of(seeded, job), state_of(whole.begun, job), check_row_order=False, check_exact=True)
    before = tables_of(whole.begun, job)
    run(seeded, job, parts[2:])
    assert_goes_on(whole.went_on, seeded, job, before)
    ended = run(seeded, job, (), to_the_end=True)
    assert_goes_on(whole.ended, seeded, job, before)
    assert any(table_of(seeded, job, table).height for table in job.tables)
    assert ended.watermark == whole.ended_with.watermark
    assert ended.totals.events == told.checked.events + copies_of(job, parts[2:])
    assert accounted_for(seeded, job) == counted(job, ended.totals.events)
    assert ended.totals.open_events == whole.ended_with.totals.open_events


@every_job
def test_a_job_moved_to_other_key_groups_goes_on_as_if_it_had_never_stopped(tmp_path, whole_of, history: History):
    job, parts, whole = history.job(), history.parts(), whole_of(history)
    other = history.job(key_groups=13)
    moved = copied(whole.begun, tmp_path, "moved")
    told = move(moved, other, yes=True, runners=LOCAL)
    assert told.rows == told.rows_before == state_of(whole.begun, job).height
    before = tables_of(whole.begun, job)
    for table in job.tables:
        assert_frame_equal(table_of(moved, job, table), before[table.name], check_row_order=False)
    ended = run(moved, other, parts[2:], to_the_end=True)
    assert ended.totals.events == whole.ended_with.totals.events == copies_of(job, parts)
    for lakehouse in (moved, whole.ended):
        assert accounted_for(lakehouse, job) == counted(job, ended.totals.events)
    nothing = {name: rows.clear() for name, rows in before.items()}
    assert_goes_on(whole.ended, moved, job, nothing)
