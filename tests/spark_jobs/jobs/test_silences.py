"""Every shipped job, in each of its modes, gives one answer for events that are as far apart as its durations, or nearly so."""

import json
import random
from contextlib import nullcontext

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold import TestHarness, build_job
from keyfold.times import END
from spark_jobs.jobs.batched_enrichment.job import BatchedEnrichmentParameters
from spark_jobs.jobs.batched_enrichment.job import build as build_enrichment
from spark_jobs.jobs.batched_enrichment.protocol import Outcome
from spark_jobs.jobs.registry import JOBS
from tests.examples import examples
from tests.silences import assert_one_answer_however_a_run_comes, assert_one_answer_in_any_runs, events_apart
from tests.spark_jobs.jobs.modes import modes_of

ANSWERED_ELSEWHERE = ("batched_enrichment", "sales_with_products")
"""Their answers come from a service, whose calls have the events that came together, and from a table that events do not fit."""

BY_RUNS = (("timeout_in", "processing_time"), ("order", "arrival"), ("learn", "refresh"), ("close", "fast"))
"""Choices with which what comes together, or when, decides, as their descriptions say."""

MODES = {name: [*modes_of(name)] for name in JOBS if name not in ANSWERED_ELSEWHERE}
IN_ANY_SLICES = {name: [mode for mode in modes if mode.get("order") != "arrival"] for name, modes in MODES.items()}
IN_ANY_RUNS = {name: [mode for mode in modes if not set(BY_RUNS) & set(mode.items())] for name, modes in MODES.items()}
SEEDS = st.integers(0, 2**32)


@pytest.mark.parametrize("name", IN_ANY_SLICES)
@examples(100, shrinks=False)
@given(data=st.data(), seed=SEEDS)
def test_neither_order_nor_slices_change_an_answer(name, data, seed):
    job = build_job(JOBS[name], data.draw(st.sampled_from(IN_ANY_SLICES[name])))
    assert_one_answer_however_a_run_comes(job, random.Random(seed))


@pytest.mark.parametrize("name", IN_ANY_RUNS)
@examples(100, shrinks=False)
@given(data=st.data(), seed=SEEDS)
def test_nor_do_the_runs_in_which_events_come(name, data, seed):
    job = build_job(JOBS[name], data.draw(st.sampled_from(IN_ANY_RUNS[name])))
    assert_one_answer_in_any_runs(job, random.Random(seed))


@examples(100, shrinks=False)
@given(seed=SEEDS)
def test_every_event_is_sent_once_however_far_it_is_from_the_next(seed):
    async def call(batch):
        return [Outcome(json.dumps(number), 1, 200) for number in range(len(batch))]

    parameters = BatchedEnrichmentParameters.model_validate({"max_size": 3})
    job = build_enrichment(parameters, lambda: nullcontext(call))
    harness, (rows,) = TestHarness(job), events_apart(job, random.Random(seed)).values()
    harness.batch(pl.DataFrame(rows, schema=pl.Schema(job.only_input.stream.event_schema), orient="row"))
    harness.batch(advance_to=END)
    harness.assert_nothing_lost()
    assert harness.written[job.name].height == len(rows)
