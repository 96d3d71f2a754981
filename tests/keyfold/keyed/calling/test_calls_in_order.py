"""A hand-written step gives the rows of plain Python, however runs are cut and in whatever order their events come."""

import random
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold import TestHarness
from tests.examples import examples
from tests.keyfold.keyed.handwritten_steps import ALARM, CASES, NOON, SOON, TICK, TIMEOUT, Click, frame

GAPS = [
    timedelta(0), TICK, SOON - TICK, SOON, SOON + TICK, timedelta(minutes=4),
    TIMEOUT - TICK, TIMEOUT, TIMEOUT + TICK, TIMEOUT + timedelta(minutes=4), 10 * TIMEOUT,
]  # fmt: skip
DELAYS = [timedelta(0), TICK, timedelta(minutes=4), TIMEOUT]
HISTORY = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(GAPS), st.sampled_from([1, 2, ALARM])), min_size=1, max_size=14
)


def history(drawn) -> list[Click]:
    at, clicks = NOON, []
    for user, gap, cents in drawn:
        at += gap
        clicks.append(Click(user, at, cents))
    return clicks


def cut(clicks: list[Click], cuts: set[int]) -> list[tuple[datetime, list[Click]]]:
    """Divide clicks into runs; those of one moment stay together, as in slices."""
    runs: list[list[Click]] = [[]]
    for number, click in enumerate(clicks):
        if number in cuts and click.at != clicks[number - 1].at:
            runs.append([])
        runs[-1].append(click)
    # A run is planned when its last click has come.
    return [(run[-1].at, run) for run in runs if run]


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
