"""Every operator gives one answer for events that are as far apart as its durations, a microsecond less or more, and ten times."""

import random
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from keyfold.testing import assert_one_answer
from keyfold.testing.verifying import IN_FILES
from tests.examples import examples
from tests.keyfold.operators.every_operator import EVERY_OPERATOR
from tests.silences import assert_one_answer_however_a_run_comes, assert_one_answer_in_any_runs, events_apart

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
DURATIONS = st.lists(
    st.sampled_from([SECOND, 90 * SECOND, 2 * MINUTE, 3 * MINUTE, HOUR, 25 * HOUR]), min_size=4, max_size=4
)
SEEDS = st.integers(0, 2**32)

BY_RUNS = ("at once", "in processing time", "buffer")
"""Of which a docstring says that what comes together, or when, decides."""

ALL = st.sampled_from([*EVERY_OPERATOR])
IN_ANY_RUNS = st.sampled_from([name for name in EVERY_OPERATOR if not any(said in name for said in BY_RUNS)])
IN_EVENT_TIME = st.sampled_from([name for name in EVERY_OPERATOR if "processing" not in name])


@examples(1500)
@given(name=ALL, durations=DURATIONS, seed=SEEDS)
def test_neither_order_nor_slices_change_an_answer(name, durations, seed):
    assert_one_answer_however_a_run_comes(EVERY_OPERATOR[name].of(durations), random.Random(seed))


@examples(1000)
@given(name=IN_ANY_RUNS, durations=DURATIONS, seed=SEEDS)
def test_nor_do_the_runs_in_which_events_come(name, durations, seed):
    assert_one_answer_in_any_runs(EVERY_OPERATOR[name].of(durations), random.Random(seed))


@examples(300)
@given(name=IN_EVENT_TIME, durations=DURATIONS, seed=SEEDS)
def test_the_engine_gives_that_answer_of_files(name, durations, seed):
    job, chance = EVERY_OPERATOR[name].of(durations), random.Random(seed)
    assert_one_answer(job, [events_apart(job, chance), events_apart(job, chance)], IN_FILES)
