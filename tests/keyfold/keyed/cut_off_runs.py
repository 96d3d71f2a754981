"""Runs that are cut off at any point, for jobs whose state is held to a dictionary."""

import pytest
from hypothesis import strategies as st

from keyfold.errors import KeyfoldError
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.parts.part_rows import Sizes
from keyfold.keyed.runner import run_job
from keyfold.lakehouse import fail_points
from tests.keyfold.keyed.without_spark import Cut, PowerCut

POINTS = ["work: before", "work: files written", "work: after", "done: after", "commit: after"]
SIZES = st.sampled_from(
    [Sizes(rows_a_group=2, rows_a_segment=4, inline_bytes=0, small_bytes=0), Sizes(small_bytes=0), Sizes()]
)


def clicks_of(users):
    """Clicks of a run: of a user, at a minute."""
    return st.lists(st.tuples(st.sampled_from(users), st.integers(0, 60)), min_size=1, max_size=8)


def run_cut_off(spark, lakehouse, job, point, monkeypatch):
    """Cut a run off at a point, unless that is None, and run again; returns its summary, generation and last batch."""
    if point is not None:
        with monkeypatch.context() as patch:
            patch.setattr(fail_points, "act", Cut(point))
            with pytest.raises((KeyfoldError, PowerCut)):
                run_job(spark, lakehouse, job)
    summary = run_job(spark, lakehouse, job)
    generation = live_generation(lakehouse, job.name)
    assert generation is not None
    done = generation.journal.last_done()
    assert done is not None
    return summary, generation, done.batch
