"""A hand-written step gives the rows of plain Python in runs of the engine: in files and slices of any size, on either runner."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.keyed.job_run import RunOptions
from tests.examples import examples
from tests.keyfold.keyed.calling.histories import DELAYS, HISTORY, cut, history
from tests.keyfold.keyed.handwritten_steps import CASES, TIMEOUT, frame
from tests.lake import Lake

# A run's processing time is that of the clock on the wall.
IN_EVENT_TIME = [name for name, case in CASES.items() if "processing" not in name]


def assert_gives_the_rows_of_plain_python(lake, case, clicks, delay, cuts, max_bytes, seed):
    job, runs = case.job(delay), cut(clicks, cuts)
    for _, run in runs:
        mixed = random.Random(seed).sample(run, len(run))
        for file in (mixed[::2], mixed[1::2]):
            lake.put(frame(file))
        lake.run(job, options=RunOptions(max_bytes_per_batch=max_bytes))
    assert lake.rows(job.name) == case.rows(runs, delay)


@pytest.mark.parametrize("name", IN_EVENT_TIME)
@examples(100)
@given(
    drawn=HISTORY,
    delay=st.sampled_from(DELAYS),
    cuts=st.sets(st.integers(1, 13), max_size=3),
    max_bytes=st.sampled_from([1, 128 << 20]),
    seed=st.integers(0, 9),
)
def test_in_this_process(name, tmp_path_factory, drawn, delay, cuts, max_bytes, seed):
    lake = Lake(tmp_path_factory.mktemp("lake") / "home")
    assert_gives_the_rows_of_plain_python(lake, CASES[name], history(drawn), delay, cuts, max_bytes, seed)


@pytest.mark.parametrize("name", IN_EVENT_TIME)
def test_on_spark(name, new_home, spark):
    chance = random.Random(name)
    drawn = [
        (chance.choice("abc"), chance.choice([0.1, 0.4, 1, 1.4, 10]) * TIMEOUT, chance.choice([1, 7]))
        for _ in range(40)
    ]
    lake = Lake(new_home("handwritten"), spark)
    assert_gives_the_rows_of_plain_python(lake, CASES[name], history(drawn), DELAYS[2], {11, 25}, 1, 0)
