"""Whatever state a job comes to, its rows can be written in any form, checked, and read as the same state again."""

from datetime import timedelta
from io import BytesIO
from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from spark_jobs.jobs.parameters import build_job
from spark_jobs.jobs.registry import JOBS
from spark_jobs.keyed.codec import polars_schema
from spark_jobs.keyed.harness import TestHarness
from spark_jobs.keyed.hashing import PartOf
from spark_jobs.state.lines import json_lines
from spark_jobs.state.staging import as_state, check_rows
from tests.spark_jobs.jobs.playing import combined
from tests.spark_jobs.state.job_histories import HISTORIES, PARTS, START


def with_derived(job, events):
    """Events as the engine reads them: with the columns that the job derives."""
    derived = {name: pl.lit(0) if isinstance(how, PartOf) else how for name, how in job.derived.items()}
    kinds = polars_schema(job.events)
    events = events.with_columns(**derived).select(pl.col(name).cast(kind) for name, kind in kinds.items())
    return combined(job, events, 1)


def read_again(job, state, form):
    """The state as a source of that form gives it."""
    if form == "frame":
        return state.lazy()
    text = "".join(f"{line}\n" for line in json_lines(state, (), "jsonl"))
    return pl.read_ndjson(BytesIO(text.encode()), infer_schema_length=None).lazy()


def assert_is_state(job, state):
    """See that rows of state pass for such, in every form, and are the same then."""
    for form in ("frame", "json lines") if state.height else ("frame",):
        source = read_again(job, state, form)
        checked = check_rows(job, source, {})
        assert (checked.rows, checked.keys) == (state.height, state.select(job.key).n_unique() if state.height else 0)
        assert checked.events == (state.select(job.state_events).item() or 0)
        assert_frame_equal(as_state(job, source, {}).collect(), state.select(job.state.names), check_exact=True)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(HISTORIES), st.integers(0, 1000), st.integers(1, PARTS), st.integers(0, 600))
def test_any_state_that_a_shipped_job_comes_to_can_be_read_and_seeded(history, seed, parts, minutes):
    job = history.job()
    harness = TestHarness(job)
    for part in history.parts(seed)[:parts]:
        harness.batch(with_derived(job, part), START)
    assert_is_state(job, harness.state)
    harness.batch(None, START, advance_to=START + timedelta(minutes=minutes))
    assert_is_state(job, harness.state)


RIDES = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 600), st.sampled_from(["pickup", "enroute", "enroute", "dropoff"])),
    min_size=1,
    max_size=30,
)


@pytest.mark.parametrize("close", ["fast", "complete"])
@settings(max_examples=80, deadline=None)
@given(RIDES, st.lists(st.integers(0, 30), max_size=4))
def test_a_ride_whose_id_comes_back_still_has_one_row_for_what_has_passed(close, points, cuts):
    job = build_job(JOBS["ride_summaries"], {"close": close, "closed_for": "30m", "timeout": "20m"})
    events = pl.DataFrame(
        {
            "ride_id": [ride for ride, _, _ in points],
            "timestamp": [START + timedelta(minutes=minute) for _, minute, _ in points],
            "ride_status": [status for _, _, status in points],
        }
    ).with_columns(point_idx=pl.int_range(pl.len(), dtype=pl.Int32), latitude=40.7, longitude=-74.0, meter_reading=1.0)
    harness = TestHarness(job)
    bounds = [0, *sorted(cuts), len(points)]
    for since, until in pairwise(bounds):
        harness.batch(events[since:until].select(job.events.names))
        assert_is_state(job, harness.state)
