"""A step that adds rows to its state and drops keys of it, in place of giving back all rows."""

from datetime import timedelta

import polars as pl
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from keyfold.keyed.calling.harness import TestHarness
from keyfold.keyed.job.step import Step
from keyfold.keyed.running import operator
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.reading import scan_table
from tests.examples import examples
from tests.keyfold.keyed.cut_off_runs import POINTS, SIZES, clicks_of, run_cut_off
from tests.keyfold.keyed.toy_jobs import clicks, notes
from tests.keyfold.state.local_state import frames_of_state

USERS = [f"user-{number}" for number in range(7)]
RUN = clicks_of(USERS)


def by_user(frames):
    """The rows of each user, in the order in which state has them."""
    rows = {}
    for frame in frames:
        for user, *row in frame.select("user", "at", "clicks", "deadline").iter_rows():
            rows.setdefault(user, []).append(row)
    return rows


def as_expected(kept, events, watermark):
    """What the job's step makes of the rows of users, in plain Python, and the rows that it gives out."""
    given_out, after = [], dict(kept)
    came = {}
    for user, at, count in sorted(events.iter_rows(), key=lambda row: row[1:]):
        came.setdefault(user, []).append((at, count))
    for user in {*kept, *came}:
        rows = kept.get(user, [])
        due = [row for row in rows if row[2] is not None and row[2] <= watermark]
        new = [[at, count, _deadline(at)] for at, count in came.get(user, [])]
        if len(due) > 2 or any(at.minute % 10 == 7 for at, _ in came.get(user, [])):
            given_out += [(user, at, count) for at, count, _ in rows]
            rows = []
        after[user] = [*rows, *new]
    return {user: rows for user, rows in after.items() if rows}, given_out


def _deadline(at):
    if at.minute % 2:
        return None
    return at.replace(minute=at.minute // 10 * 10) + timedelta(minutes=10)


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(runs=st.lists(st.tuples(RUN, st.none() | st.sampled_from(POINTS)), min_size=1, max_size=7), sizes=SIZES)
def test_runs_of_it_that_are_cut_off_anywhere_keep_what_a_dictionary_keeps(
    tmp_path_factory, without_spark, monkeypatch, runs, sizes
):
    monkeypatch.setattr(operator, "SIZES", sizes)
    lakehouse, harness, job = Lakehouse(tmp_path_factory.mktemp("home")), TestHarness(notes()), notes()
    expected, states, given_out, generation, played = {}, {}, [], None, 0
    table = lakehouse.events("clicks")
    table.parent.mkdir(parents=True)
    for rows, point in runs:
        events = clicks(*rows)
        events.write_delta(str(table), mode="append")
        summary, generation, last = run_cut_off(without_spark, lakehouse, job, point, monkeypatch)
        # A run that was cut off had its batch; the one after it has another, since rows that stay are still due.
        while played <= last:
            harness.batch(events)
            expected, out = as_expected(expected, events, harness.watermark)
            given_out += out
            states[played] = expected
            events, played = events.clear(), played + 1
        assert by_user([harness.state]) == expected
        assert summary.totals.open_events == sum(map(len, expected.values()))
    assert generation is not None
    for batch, kept in states.items():
        assert by_user(frames_of_state(generation, batch)) == kept
    written = scan_table(generation.table(job.name)).select("user", "at", "clicks").collect()
    assert sorted(written.iter_rows()) == sorted(given_out)
    harness.assert_nothing_lost()


def test_a_step_may_add_nothing_and_drop_nothing():
    harness = TestHarness(notes(step=lambda state, events, clock: Step(add=state.clear(), output=events)))
    harness.batch(clicks(("ann", 1)))
    assert harness.state.height == 0


def test_a_step_that_says_nothing_of_its_output_is_told_its_columns():
    harness = TestHarness(notes(step=lambda state, events, clock: Step(state=state)))
    with pytest.raises(ValueError, match="the step's output misses user, at, clicks"):
        harness.batch(clicks(("ann", 1)))


def test_rows_that_are_added_are_behind_those_that_the_key_has():
    harness = TestHarness(notes())
    harness.batch(clicks(("ann", 5), ("bob", 1)))
    harness.batch(clicks(("ann", 3)))
    minutes = harness.state.filter(pl.col("user") == "ann")["at"].dt.minute()
    assert minutes.to_list() == [5, 3]
