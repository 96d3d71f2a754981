"""A hand-written step gives the rows of plain Python, however runs are cut and in whatever order their events come."""

import random
from dataclasses import replace
from datetime import timedelta

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold import DEADLINE, Step, TestHarness
from tests.examples import examples
from tests.keyfold.keyed.calling.histories import DELAYS, HISTORY, cut, history
from tests.keyfold.keyed.handwritten_steps import CASES, NOON, TICK, TIMEOUT, Click, frame


@pytest.mark.parametrize("name", CASES)
@examples(400)
@given(drawn=HISTORY, delay=st.sampled_from(DELAYS), cuts=st.sets(st.integers(1, 13)), seed=st.integers(0, 9))
def test_a_step_gives_the_rows_of_plain_python(name, drawn, delay, cuts, seed):
    case, clicks = CASES[name], history(drawn)
    harness, job = TestHarness(case.job(delay)), case.job(delay)
    runs = cut(clicks, cuts)
    for now, run in runs:
        mixed = random.Random(seed).sample(run, len(run))
        harness.batch(frame(mixed), now)
        harness.assert_nothing_lost()
    assert sorted(harness.written[job.name].rows()) == case.rows(runs, delay)


def test_events_behind_the_watermark_come_together_so_that_which_of_them_are_late_does_not_depend_on_calls():
    seen = []

    def step(state, events, clock):
        seen.append(events["cents"].to_list())
        return CASES["count with timeout"].step(state, events, clock)

    harness = TestHarness(replace(CASES["count with timeout"], step=step).job(timedelta(0)))
    harness.batch(frame([Click("a", NOON + 10 * TIMEOUT, 0)]))
    seen.clear()
    behind = [Click("b", NOON + number * TIMEOUT, number) for number in (1, 5, 9)]
    harness.batch(frame([*behind, *(Click("b", NOON + number * TIMEOUT, number) for number in (12, 14))]))
    assert [cents for cents in seen if cents] == [[1, 5, 9], [12], [14]]
    assert sorted(harness.written["visits"]["clicks"]) == [1, 1, 3]


def test_a_row_that_a_step_keeps_though_it_is_due_has_one_call_in_a_batch():
    seen = []

    def step(state, events, clock):
        seen.append((state[DEADLINE].to_list(), clock.watermark))
        came = events.select("user", since="at", clicks=1, cents="cents", deadline=pl.col("at") + TIMEOUT)
        return Step(state=pl.concat([state, came.cast(dict(state.schema))]))

    harness = TestHarness(replace(CASES["count with timeout"], step=step).job(timedelta(0)))
    for number in range(2):
        harness.batch(frame([Click("a", NOON + number * TIMEOUT, 0)]))
    seen.clear()
    harness.batch(None, advance_to=NOON + 5 * TIMEOUT)
    due = [NOON + TIMEOUT, NOON + 2 * TIMEOUT]
    # The first is called for before the second is due, and both once more in the next batch.
    assert seen == [(due, NOON + 2 * TIMEOUT - TICK), (due, NOON + 5 * TIMEOUT)]
    seen.clear()
    harness.batch(None, advance_to=NOON + 6 * TIMEOUT)
    assert len(seen) == 2


def test_a_key_whose_calls_return_changes_and_then_the_whole_state_has_the_rows_of_the_last():
    harness = TestHarness(CASES["count with timeout, by changes and the whole"].job(timedelta(0)))
    harness.batch(frame([Click("a", NOON, 0)]))
    harness.batch(frame([Click("b", NOON + TICK, 0)]), advance_to=NOON + 5 * TIMEOUT)
    harness.assert_nothing_lost()
    assert harness.state.is_empty()
    assert sorted(harness.written["visits"]["user"]) == ["a", "b"]
